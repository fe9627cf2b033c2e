"""The shared verifier: it runs on the machine that the agent has left, and, for a full reward, on copies of it.

On copies the tests are also altered. Whatever of the agent's has seen them as they are could tell them from altered
ones, so where something runs beside the copies that could remember, the copies come first.
"""

import time
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import msgspec

from proctor.benchmarks.harbor.control_check import KeepOracle, VerifierControlChecker, grading_targets
from proctor.benchmarks.harbor.task import HarborStep, HarborTask
from proctor.benchmarks.harbor.test_variants import HarborControls, with_uncontrolled
from proctor.benchmarks.harbor.verdict_rule import HarborControlCheck, HarborEvidence, comes_to_a_result, judge
from proctor.benchmarks.harbor.verifier import CopyState, VerifierSetup, clean, make_ready, verify, verify_variant
from proctor.core.causes import Status
from proctor.core.environment import Environment
from proctor.core.errors import InfrastructureError
from proctor.grading.state import (
    CopyFailed,
    FinalFiles,
    GradingTarget,
    QuarantinedEnvironment,
    ServiceStartupWait,
    keep_files,
    list_processes,
    load_snapshot,
    open_grading_target,
    processes_beside_main,
    wait_for_services,
    with_findings,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedVerifier:
    """The verifier of one step, where the agent worked.

    Attributes:
        folder: has the snapshot of the environment.
        is_last: no other step follows; before another one, the machine stays as the agent left it.
        seconds, variables, user: as the verifier is run.
        controls: pairs of variants with altered tests; 0: none.
        key: identifies what the control set depends on, beside the environment.
        oracle: lets the solution work; None where the task has none.
        untouched: brings an environment that nobody has worked in to where the agent started; its snapshot's folder.
        grace_seconds: the time that what was started has to become a service.
    """

    task: HarborTask
    step: HarborStep
    environment: Environment
    folder: Path
    is_last: bool
    seconds: float
    variables: dict[str, str]
    user: str | None
    controls: int
    key: str
    grader: str
    oracle: KeepOracle | None
    untouched: Callable[[Environment], AbstractAsyncContextManager[Path]]
    grace_seconds: float

    async def verify(self) -> HarborEvidence:
        """Run the verifier; a full reward is examined."""
        started = time.time()
        async with keep_files(self.environment, self.folder) as kept:
            # Where the files are not kept, nothing could tell what was done in that time.
            grace = ServiceStartupWait(seconds=self.grace_seconds, since=started, named=self.step.text())
            setup = VerifierSetup(
                task=self.task,
                step=self.step,
                folder=self.folder,
                seconds=self.seconds,
                variables=self.variables,
                checkpoint=kept.checkpoint,
                grace=grace if kept.checkpoint is not None else None,
                user=self.user,
            )
            ready = await make_ready(setup, self.environment) if self.is_last else None
            is_watched = await self._is_watched(ready)
            checker = VerifierControlChecker(
                step=self.step,
                machine=self.environment,
                kept=kept,
                started=started,
                search_path=ready.search_path if ready is not None else load_snapshot(self.folder).path,
                uses_live_files=is_watched,
                run_on=partial(verify_variant, setup),
                oracle=self.oracle,
                pairs=self.controls,
                key=self.key,
            )
            controls, check = None, None
            if is_watched and self.controls and kept.checkpoint is not None and (ready is not None or not self.is_last):
                controls, check = await self._check_unseen(checker)
            evidence = await self._run(setup, kept, ready)
            if evidence.is_inconclusive and await self._works_untouched(setup, kept):
                again = await self._run(setup, kept, ready)
                # What lies there now is of the first run.
                evidence = msgspec.structs.replace(
                    again, planted=evidence.planted, works_untouched=again.is_inconclusive
                )
            evidence = msgspec.structs.replace(
                evidence, quarantine_result=with_findings(evidence.quarantine_result, kept.findings)
            )
            seen = evidence.quarantine_result
            passes = judge(evidence, self.grader).status is Status.RESOLVED
            may_be_late = bool(seen.waited_for or seen.late_files)
            if kept.checkpoint is not None and self.controls and evidence.is_part:
                return msgspec.structs.replace(evidence, control_check=await checker.run_part(evidence.reward))
            if not passes or kept.checkpoint is None or not (self.controls or may_be_late):
                return evidence
            if check is None:
                controls = with_uncontrolled(controls or await checker.controls(), evidence.statuses)
                check = await checker.run(controls)
            check = await checker.with_late_changes(check, seen.late_files)
            return msgspec.structs.replace(evidence, control_check=check)

    async def _check_unseen(self, checker: VerifierControlChecker) -> tuple[HarborControls, HarborControlCheck | None]:
        """Give the variants before anything has seen the tests as they are; None: there is nothing to tell apart."""
        controls = await checker.controls()
        if controls.is_empty:
            return controls, None
        if not self.is_last:
            await self._wait_for_services()
        return controls, await checker.run(controls)

    async def _run(
        self, setup: VerifierSetup, kept: FinalFiles, ready: QuarantinedEnvironment | None
    ) -> HarborEvidence:
        """Run the verifier as it is. Before another step on copies, and on the machine only where they do not do."""
        if self.is_last:
            return await verify(setup, self.environment, ready)
        evidence = await self._run_on_copies(setup, kept)
        if evidence is None:
            evidence = await verify(setup, self.environment, await make_ready(setup, self.environment))
            await clean(self.environment, evidence.quarantine_result.search_path or "/usr/bin:/bin")
        return evidence

    async def _works_untouched(self, setup: VerifierSetup, kept: FinalFiles) -> bool:
        """Whether the verifier comes to a result where nobody has worked: then it is the machine that is broken."""
        if kept.checkpoint is None:
            return False
        try:
            async with await kept.checkpoint.original() as fresh, self.untouched(fresh) as folder:
                there = replace(setup, folder=folder, checkpoint=None, grace=None)
                return comes_to_a_result(await verify(there, fresh, await make_ready(there, fresh)))
        except InfrastructureError:
            return False

    async def _run_on_copies(self, setup: VerifierSetup, kept: FinalFiles) -> HarborEvidence | None:
        """What the verifier says on copies; None: no full reward, and the machine itself may give another."""
        if kept.checkpoint is None:
            return None
        for target in (GradingTarget.COPY, GradingTarget.LIVE_FILES):
            if target is GradingTarget.LIVE_FILES:
                await self._wait_for_services()
            try:
                async with open_grading_target(target, self.environment, kept.checkpoint) as copy:
                    seen = await verify_variant(setup, copy, {}, CopyState.NEW)
            except CopyFailed:
                return None
            if judge(seen, self.grader).status is Status.RESOLVED:
                return seen
        return None if GradingTarget.MACHINE in grading_targets(self.step) else seen

    async def _is_watched(self, ready: QuarantinedEnvironment | None) -> bool:
        """Whether anything could keep the tests as they are until they are seen altered.

        That is what runs on the machine or beside it, and the machine itself, where altered tests run there too.
        """
        if self.task.environment.compose is not None or GradingTarget.MACHINE in grading_targets(self.step):
            return True
        if ready is not None and (ready.waited_for or ready.late_files):
            return True
        path = ready.search_path if ready is not None else load_snapshot(self.folder).path
        try:
            return bool(processes_beside_main(await list_processes(self.environment, path)))
        except InfrastructureError:
            return True  # something keeps us from seeing it

    async def _wait_for_services(self) -> None:
        before = load_snapshot(self.folder)
        await wait_for_services(self.environment, before.processes, path=before.path, seconds=self.grace_seconds)
