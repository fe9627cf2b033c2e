"""The verifier on copies of the machine, with tests as they are and altered. It must pass the ones and fail the others.

Whoever has seen the tests as they are can tell them from altered ones. Where something beside the copies could tell it
to what runs on them, they are therefore tried before the verifier runs as it is.

Which alterations a right state fails is proved with the task's own solution, in an environment that nobody has worked
in; the proof is cached.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from functools import partial
from typing import Final

import msgspec

from proctor.benchmarks.harbor.task import HarborStep
from proctor.benchmarks.harbor.test_variants import (
    HarborControls,
    altered_pass,
    as_test_run,
    choose_variants,
    everything_altered,
    judged,
    judged_part,
    known_controls,
    originals_pass,
    prove_with,
    test_sources,
)
from proctor.benchmarks.harbor.verdict_rule import HarborControlCheck, HarborEvidence
from proctor.benchmarks.harbor.verifier import CopyState
from proctor.core.causes import Cause
from proctor.core.environment import Environment
from proctor.core.verdict import Finding
from proctor.grading.controls import TestVariant, control_summary
from proctor.grading.controls.test_variants import variant_files
from proctor.grading.outcome import TestRun
from proctor.grading.state import (
    CopyFailed,
    EnvironmentCode,
    FinalFiles,
    GradingTarget,
    changed_since,
    data_files,
    open_grading_target,
)

RunOn = Callable[[Environment, Mapping[str, bytes], CopyState], Awaitable[HarborEvidence]]
"""Runs the verifier in an environment, with these files in place of its tests'."""
KeepOracle = Callable[[Environment], AbstractAsyncContextManager[FinalFiles]]
"""Lets the solution work in an untouched environment, and keeps the files that it has made."""

_PROCESS_WORDS: Final = (b"psutil", b"pgrep", b"pidof", b"/proc/", b"ps aux", b"ps -", b"systemctl", b'"ps"', b"'ps'")
_MAX_SHOWN: Final = 5
_MAX_NAMED: Final = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifierControlChecker:
    """The control check of one machine on which the verifier gives a full reward.

    Attributes:
        kept: the machine's files when the time was up.
        started: when they were kept, by the engine's clock.
        oracle: None where the task has no solution.
        key: identifies what the control set depends on.
        search_path: where the machine's tools are found.
        uses_live_files: whether anything but the verifier can have changed the machine's files since then.
        changed_on_copy: what the verifier itself changes.
        left_on_copy: the files that the verifier leaves there, where it fails on a copy.
    """

    step: HarborStep
    machine: Environment
    kept: FinalFiles
    started: float
    run_on: RunOn
    oracle: KeepOracle | None
    pairs: int
    key: str
    search_path: str
    uses_live_files: bool
    changed_on_copy: set[str] = field(default_factory=set)
    left_on_copy: set[str] = field(default_factory=set)

    async def controls(self) -> HarborControls:
        """The altered tests that a right state fails."""
        prove = None if self.oracle is None else partial(self._prove, self.oracle)
        return await known_controls(self.key, prove, self.pairs)

    async def run(self, controls: HarborControls) -> HarborControlCheck:
        """Give the variants; what they say against the machine."""
        variants = choose_variants(controls, self.pairs)
        try:
            for target in self._targets():
                seen, findings = await self._give(target, variants, controls)
                if originals_pass(controls, seen):
                    data_run = None if altered_pass(controls, seen) else await self._give_data(target, controls)
                    return judged(target, controls, seen, findings, data_run)
        except CopyFailed as error:
            why = f"no copy of the machine can be started, while its image starts: {error}"
            return HarborControlCheck(
                target=None, cause=Cause.TAMPERED, reason=why, controls=control_summary(controls, None)
            )
        code = EnvironmentCode.ONLY_LIVE
        return HarborControlCheck(
            target=None,
            cause=Cause.TESTS_FAILED,
            reason=f"the verifier {code.meaning}",
            controls=control_summary(controls, None),
            findings=(*findings, Finding(code=code.value, path="", detail=code.meaning)),
        )

    async def run_part(self, reward: float) -> HarborControlCheck | None:
        """What is against a reward that is not full: it is no lower when all tests are altered. None: nothing."""
        controls = await self.controls()
        if reward <= controls.altered_reward:
            return None
        try:
            async with open_grading_target(GradingTarget.COPY, self.machine, self.kept.checkpoint) as environment:
                seen = await self.run_on(environment, everything_altered(controls, self.step), CopyState.NEW)
        except CopyFailed:
            return None  # nothing was forged where nothing runs
        return judged_part(controls, reward, seen)

    async def with_late_changes(self, made: HarborControlCheck, late_files: tuple[str, ...]) -> HarborControlCheck:
        """The same; where it passes only on files of later than when the time was up, what changed is against it.

        Where it passed on none of them, and did on the machine itself afterwards, what changed is named as well.

        Args:
            made: what `run` has made.
            late_files: what can be work and was changed between then and the verifier's first run.
        """
        if made.cause not in {None, Cause.TESTS_FAILED} or made.target is GradingTarget.COPY:
            return made
        late = await self._late_changes(late_files)
        if not late:
            return made
        code = EnvironmentCode.LATE_CHANGE
        named = tuple(Finding(code=code.value, path=file, detail=code.meaning) for file in late)
        if made.target is None:
            return msgspec.structs.replace(made, findings=(*made.findings, *named[:_MAX_NAMED]))
        reason = f"fails as it was when the time was up; changed later: {', '.join(late[:_MAX_SHOWN])}"
        return msgspec.structs.replace(made, cause=Cause.TESTS_FAILED, reason=reason, findings=(*made.findings, *named))

    async def _late_changes(self, late_files: tuple[str, ...]) -> tuple[str, ...]:
        """Files that changed on the machine since its time was up, or are gone, other than by the verifier itself."""
        changed = await changed_since(self.machine, self.started, path=self.search_path)
        changed = tuple(file for file in changed if file not in self.changed_on_copy)
        gone = self.left_on_copy - self.changed_on_copy
        if gone:
            gone -= await data_files(self.machine, path=self.search_path)
        return tuple(dict.fromkeys((*late_files, *changed, *sorted(gone))))

    async def _give_data(self, target: GradingTarget, controls: HarborControls) -> TestRun | None:
        """Run the verifier with altered data beside its tests, where the solution fails any of them then."""
        if not controls.data_tests:
            return None
        async with open_grading_target(target, self.machine, self.kept.checkpoint) as environment:
            return as_test_run(await self.run_on(environment, controls.data, _copy_state(target, is_known=False)))

    async def _give(
        self, target: GradingTarget, variants: Sequence[TestVariant], controls: HarborControls
    ) -> tuple[list[tuple[TestVariant, TestRun]], tuple[Finding, ...]]:
        """Run the variants until one fails where it must not, or passes where it must not."""
        seen: list[tuple[TestVariant, TestRun]] = []
        findings: dict[Finding, None] = {}
        is_known = False
        for variant in variants:
            async with open_grading_target(target, self.machine, self.kept.checkpoint) as environment:
                files = variant_files(controls, test_sources(self.step), variant)
                evidence = await self.run_on(environment, files, _copy_state(target, is_known=is_known))
                # Another copy of the same files has nothing else to be set aside, if this one had nothing.
                is_known = not evidence.quarantine_result.findings
                seen.append((variant, as_test_run(evidence)))
                if target is GradingTarget.COPY:
                    path = evidence.quarantine_result.search_path
                    self.changed_on_copy.update(await changed_since(environment, self.started, path=path))
                    if not originals_pass(controls, seen):
                        self.left_on_copy.update(await data_files(environment, path=path))
            findings |= dict.fromkeys(evidence.quarantine_result.findings)
            if not originals_pass(controls, seen) or altered_pass(controls, seen):
                break
        return seen, tuple(findings)

    def _targets(self) -> tuple[GradingTarget, ...]:
        """Where to try; on the machine itself only where the tests look for processes, which copies do not have.

        The machine's files of now are of use only where something has changed them. What the verifier itself has left
        there is not: whoever runs in it could have left the tests as they are.
        """
        return tuple(
            target
            for target in grading_targets(self.step)
            if self.uses_live_files or target is not GradingTarget.LIVE_FILES
        )

    async def _prove(self, oracle: KeepOracle) -> HarborControls:
        """Run the control check on the solution first."""
        assert self.kept.checkpoint is not None  # noqa: S101 - there is no check without
        async with await self.kept.checkpoint.original() as fresh, oracle(fresh) as kept:
            for target in self._targets():
                proof = _OracleRuns(self.run_on, fresh, kept, target)
                plain = await proof.run({})
                if plain.reward >= 1 and as_test_run(plain).complete:
                    break
            return await prove_with(plain, self.step, proof.run, self.pairs)


def grading_targets(step: HarborStep) -> tuple[GradingTarget, ...]:
    """Where a verifier can run; on the machine itself only where its tests look for processes."""
    looks = any(word in data for data in test_sources(step).values() for word in _PROCESS_WORDS)
    return tuple(GradingTarget) if looks else (GradingTarget.COPY, GradingTarget.LIVE_FILES)


@dataclass(frozen=True, slots=True)
class _OracleRuns:
    """Test variants given to the solution. The same variant gives the same result, and is given once."""

    run_on: RunOn
    machine: Environment
    kept: FinalFiles
    target: GradingTarget
    known: dict[tuple[tuple[str, bytes], ...], HarborEvidence] = field(default_factory=dict)

    async def run(self, files: Mapping[str, bytes]) -> HarborEvidence:
        variant = tuple(sorted(files.items()))
        if variant not in self.known:
            state = _copy_state(self.target, is_known=bool(self.known))
            async with open_grading_target(self.target, self.machine, self.kept.checkpoint) as environment:
                self.known[variant] = await self.run_on(environment, files, state)
        return self.known[variant]


def _copy_state(target: GradingTarget, *, is_known: bool) -> CopyState:
    if target is GradingTarget.MACHINE:
        return CopyState.NO_COPY
    return CopyState.KNOWN if is_known else CopyState.NEW
