"""The separate verifier: files come out of the agent's environment, which then ends, and go into a fresh one.

What the agent did to its machine is gone with it. What is left to it are the files that the task names, and those are
examined as submissions are: the verifier must pass with its tests as they are, and fail with them altered.
"""

import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

import msgspec

from proctor.benchmarks.harbor.artifacts import StepSubmission, put_artifact
from proctor.benchmarks.harbor.task import HarborStep, HarborTask
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
    with_uncontrolled,
)
from proctor.benchmarks.harbor.verdict_rule import HarborControlCheck, HarborEvidence, comes_to_a_result, judge
from proctor.benchmarks.harbor.verifier import VerifierSetup, run_verifier
from proctor.core.causes import Cause, Status
from proctor.core.environment import Environment, EnvironmentProvider, EnvironmentSpec
from proctor.core.errors import InfrastructureError
from proctor.grading.controls import control_summary
from proctor.grading.controls.test_variants import variant_files
from proctor.grading.state import QuarantinedEnvironment

_MAX_ROUNDS: Final = 4
_MAX_RUNS: Final = 3
_MAX_OUTPUT: Final = 4_000
_MAKE_PLACES: Final = (
    'mkdir -p /logs/verifier /logs/agent /logs/artifacts "$1" && chmod 777 /logs/verifier /logs/agent /logs/artifacts'
    ' && printf %s "$PATH"'
)

PrepareEnvironment = Callable[[Environment], Awaitable[None]]
"""Brings a verifier's environment into the state that it starts from."""
OracleSubmission = Callable[[], AbstractAsyncContextManager[tuple[StepSubmission, Path]]]
"""Lets the solution work in an untouched environment, and gives what it submits for the step."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SeparateVerifier:
    """The verifier of one step, in environments of its own.

    Attributes:
        spec: of its environments; each is used for one run.
        prepare: brings such an environment into its first state.
        seconds, variables, user: as the verifier is run.
        key: identifies what the control set depends on, beside the environment.
        oracle: gives what the solution submits; None where the task has none.
    """

    task: HarborTask
    step: HarborStep
    provider: EnvironmentProvider
    spec: EnvironmentSpec
    prepare: PrepareEnvironment
    seconds: float
    variables: dict[str, str]
    user: str | None
    key: str
    grader: str
    oracle: OracleSubmission | None = None

    async def verify(self, submission: StepSubmission, trees: Path, pairs: int) -> HarborEvidence:
        """What the verifier makes of a submission; a full reward is examined."""
        evidence = await self._run(submission, trees, {})
        if evidence.is_inconclusive:
            evidence = await self._run_beside_nothing(evidence, submission, trees)
        findings = (*evidence.quarantine_result.findings, *submission.findings)
        evidence = msgspec.structs.replace(
            evidence,
            quarantine_result=msgspec.structs.replace(evidence.quarantine_result, findings=findings),
            refused_hosts=tuple(dict.fromkeys((*submission.refused_hosts, *evidence.refused_hosts))),
        )
        if not pairs:
            return evidence
        if judge(evidence, self.grader).status is Status.RESOLVED:
            check: HarborControlCheck | None = await self._check_submission(evidence, submission, trees, pairs)
        elif evidence.is_part:
            check = await self._check_part(evidence.reward, submission, trees, pairs)
        else:
            check = None
        return msgspec.structs.replace(evidence, control_check=check)

    async def _controls(self, pairs: int) -> HarborControls:
        return await known_controls(self.key, None if self.oracle is None else partial(self._prove, pairs), pairs)

    async def _check_part(
        self, reward: float, submission: StepSubmission, trees: Path, pairs: int
    ) -> HarborControlCheck | None:
        """What is against a reward that is not full: it is no lower when all tests are altered. None: nothing."""
        controls = await self._controls(pairs)
        if reward <= controls.altered_reward:
            return None
        return judged_part(
            controls, reward, await self._run(submission, trees, everything_altered(controls, self.step))
        )

    async def _check_submission(
        self, evidence: HarborEvidence, submission: StepSubmission, trees: Path, pairs: int
    ) -> HarborControlCheck:
        controls = with_uncontrolled(await self._controls(pairs), evidence.statuses)
        seen = []
        for variant in choose_variants(controls, pairs):
            files = variant_files(controls, test_sources(self.step), variant)
            seen.append((variant, as_test_run(await self._run(submission, trees, files))))
            if not originals_pass(controls, seen):
                reason = "the verifier passes once, and not again in another environment with the same files"
                summary = control_summary(controls, None)
                return HarborControlCheck(target=None, cause=Cause.TESTS_FAILED, reason=reason, controls=summary)
            if altered_pass(controls, seen):
                return judged(None, controls, seen)
        data_run = as_test_run(await self._run(submission, trees, controls.data)) if controls.data_tests else None
        return judged(None, controls, seen, data_run=data_run)

    async def _prove(self, pairs: int) -> HarborControls:
        assert self.oracle is not None  # noqa: S101 - asked before
        known: dict[tuple[tuple[str, bytes], ...], HarborEvidence] = {}
        async with self.oracle() as (submission, trees):

            async def run(files: Mapping[str, bytes]) -> HarborEvidence:
                variant = tuple(sorted(files.items()))
                if variant not in known:
                    known[variant] = await self._run(submission, trees, files)
                return known[variant]

            return await prove_with(await run({}), self.step, run, pairs)

    async def _run_beside_nothing(
        self, evidence: HarborEvidence, submission: StepSubmission, trees: Path
    ) -> HarborEvidence:
        """Whether the verifier breaks without the submission too; where it does not, the submission is tried again."""
        nothing = msgspec.structs.replace(submission, artifacts=())
        if not comes_to_a_result(await self._run(nothing, trees, {})):
            return evidence
        again = await self._run(submission, trees, {})
        return msgspec.structs.replace(again, works_untouched=again.is_inconclusive)

    async def _run(self, submission: StepSubmission, trees: Path, files: Mapping[str, bytes]) -> HarborEvidence:
        """Run the verifier in a fresh environment; again in another, where it broke."""
        for number in range(1, _MAX_RUNS + 1):  # noqa: B007 - used after it
            async with self._environment(submission, trees) as (environment, place):
                setup = VerifierSetup(
                    task=self.task,
                    step=self.step,
                    folder=trees,
                    seconds=self.seconds,
                    variables=self.variables,
                    checkpoint=None,
                    user=self.user or environment.default_user or None,
                )
                seen = await run_verifier(setup, environment, place, files)
            if not seen.is_inconclusive:
                break
        return msgspec.structs.replace(seen, verifier_runs=number)

    @asynccontextmanager
    async def _environment(
        self, submission: StepSubmission, trees: Path
    ) -> AsyncIterator[tuple[Environment, QuarantinedEnvironment]]:
        inside = f"/run/proctor-{secrets.token_hex(8)}"
        async with await self.provider.start(self.spec) as environment:
            await self.prepare(environment)
            made = await environment.exec(["/bin/sh", "-c", _MAKE_PLACES, "sh", inside], cwd="/", timeout=120)
            if made.exit_code != 0:
                raise InfrastructureError(
                    "the verifier's folders cannot be made in its environment", where=self.task.name
                )
            for one in submission.artifacts:
                await put_artifact(environment, one, trees)
            path = made.stdout.decode("utf-8", "replace")
            yield environment, QuarantinedEnvironment(grader_dir=inside, search_path=path)
