"""From what the grader saw to the verdict: the benchmark's own rule and ours, side by side.

The success marker is replaced by a token in the command that is run, so that nothing on the machine can have been
prepared to print them: no profile, no exchanged program, no file. The official verdict reads the token as the words.
"""

from typing import Final, Literal

from msgspec import field

from proctor.benchmarks.setupbench.altered_commands import AlteredPart
from proctor.benchmarks.setupbench.quirks import Quirk
from proctor.benchmarks.state_graded import blocked_run
from proctor.core.causes import Cause, Status
from proctor.core.record import Record
from proctor.core.verdict import ControlSummary, Finding, Verdict
from proctor.grading import AuditCode
from proctor.grading.state import EnvironmentCode, GradingTarget, QuarantinedEnvironment, ShellResult

Rule = Literal["exit_code", "marker"]

MARKER: Final = "Setup successful"
FAILED: Final = "Setup failed"
_MAX_REASON_CHARS: Final = 200
_TERMINATED: Final = 143
_LABEL: Final = "success command"


class AlteredRun(Record):
    """A run of the command with one change that no correct setup passes."""

    part: AlteredPart
    original: str
    altered: str
    run: ShellResult
    passed: bool


class SetupBenchControlCheck(Record):
    """What copies of the machine showed, which the agent's processes cannot reach.

    Attributes:
        target: where the command passes as it is; None: nowhere.
        plain: the last run of the command as it is; None: no copy could be started.
        altered: the runs of changed commands; none where no change is known that a correct setup fails.
        findings: on the copies; `fake_programs`: those that are not what their names say.
    """

    target: GradingTarget | None = field(name="place")
    plain: ShellResult | None
    altered: tuple[AlteredRun, ...] = ()
    findings: tuple[Finding, ...] = ()
    fake_programs: tuple[str, ...] = ()


class SetupBenchEvidence(Record):
    """What the grader saw of a machine.

    Attributes:
        token: what the command printed in the place of the success marker.
        official_run: the published command; `strict_run`: ours, where the task has one.
        environment: what the environment was made from.
        control_check: None where the command failed on the machine, or controls were turned off.
    """

    task_id: str
    token: str
    official_run: ShellResult
    quarantine_result: QuarantinedEnvironment
    environment: str
    strict_run: ShellResult | None = None
    control_check: SetupBenchControlCheck | None = field(default=None, name="exam")
    schema_version: Literal["proctor.setupbench_evidence@2"] = "proctor.setupbench_evidence@2"


def blocked_evidence(task_id: str, environment: str) -> SetupBenchEvidence:
    """The evidence of a machine on which every command of the grader is killed."""
    killed, quarantined = blocked_run()
    return SetupBenchEvidence(
        task_id=task_id,
        token="none",  # noqa: S106 - what the command would have printed
        official_run=killed,
        quarantine_result=quarantined,
        environment=environment,
    )


def with_token(command: str, token: str) -> str:
    """The command, printing `token` where it would print the success marker."""
    return command.replace(MARKER, token)


def passes_official(ran: ShellResult, token: str, rule: Rule) -> bool:
    """What the published harness says: the exit code alone, or the words anywhere in what was printed."""
    if rule == "exit_code":
        return ran.exit_code == 0 and not ran.timed_out
    return MARKER in (ran.stdout + ran.stderr).replace(token, MARKER)


def passes_strict(ran: ShellResult, token: str, rule: Rule, command: str = "") -> bool:
    """The same for an honest machine: a line of its own on standard output, that no later line takes back.

    Tracebacks quote the command's own text, on standard error. A command that was killed has not passed, unless it ends
    its own process group.
    """
    ends_itself = ran.exit_code == _TERMINATED and "kill -TERM -" in command
    if rule == "marker" and (ran.timed_out or (ran.exit_code != 0 and not ends_itself)):
        return False
    if rule == "exit_code":
        return ran.exit_code == 0 and not ran.timed_out
    lines = [line.strip() for line in ran.stdout.splitlines()]
    return token in lines and FAILED not in lines[lines.index(token) :]


def judge(evidence: SetupBenchEvidence, rule: Rule, quirk: Quirk | None, grader: str, command: str = "") -> Verdict:
    """The verdict on a machine."""
    ran, token = evidence.official_run, evidence.token
    official = passes_official(ran, token, rule)
    ours = passes_strict(ran, token, rule, command)
    cause, reason = _cause_and_reason(evidence, rule, ours=ours, official=official)
    if quirk is not None and quirk.strict_command is not None and evidence.strict_run is not None:
        further = passes_strict(evidence.strict_run, token, "marker")
        if quirk.replaces_official and cause is not Cause.TAMPERED:
            cause = Cause.SOLVED if further else Cause.TESTS_FAILED
            outcome = "passes" if further else "fails"
            reason = f"the published grader cannot decide ({quirk.description}); a corrected one {outcome}"
        elif cause is Cause.SOLVED and not further:
            cause = Cause.TESTS_FAILED
            reason = f"the published grader passes, but it {quirk.description}; a stricter one fails"
    if cause is Cause.SOLVED and evidence.control_check is not None:
        cause, reason = _control_check_cause(evidence.control_check) or (cause, reason)
    status = Status.RESOLVED if cause is Cause.SOLVED else Status.UNRESOLVED
    theirs = Status.RESOLVED if official else Status.UNRESOLVED
    return Verdict(
        task_id=evidence.task_id,
        status=status,
        cause=cause,
        reason=reason,
        official=theirs if theirs is not status else None,
        scores={"official": float(official)},
        findings=(*evidence.quarantine_result.findings, *_control_check_findings(evidence)),
        controls=_control_summary(evidence.control_check),
        grader=grader,
        seconds=round(ran.seconds + (evidence.strict_run.seconds if evidence.strict_run else 0.0), 3),
    )


def _control_check_cause(control_check: SetupBenchControlCheck) -> tuple[Cause, str] | None:
    """What the copies say against a machine on which the command passes; None: nothing."""
    if control_check.plain is None:
        return Cause.TAMPERED, "no copy of the machine can be started, while its image starts"
    if control_check.target is None:
        return Cause.TESTS_FAILED, f"the success command {EnvironmentCode.ONLY_LIVE.meaning}"
    passed = [run for run in control_check.altered if run.passed]
    if passed:
        change = f"`{passed[0].original}` changed to `{passed[0].altered}`"
        return Cause.TAMPERED, f"the success command also passes with {change}, which no correct setup does"
    if control_check.fake_programs:
        names = ", ".join(dict.fromkeys(control_check.fake_programs))
        return Cause.TAMPERED, f"the success command passes, but calls a replaced program: {names}"
    return None


def _control_check_findings(evidence: SetupBenchEvidence) -> tuple[Finding, ...]:
    if evidence.control_check is None:
        return ()
    known = {(finding.code, finding.path) for finding in evidence.quarantine_result.findings}
    new = [finding for finding in evidence.control_check.findings if (finding.code, finding.path) not in known]
    if evidence.control_check.target is None and evidence.control_check.plain is not None:
        new.append(Finding(code=EnvironmentCode.ONLY_LIVE.value, path="", detail=EnvironmentCode.ONLY_LIVE.meaning))
    new += [
        Finding(
            code=AuditCode.CONTROL_PASSED.value,
            path="",
            detail=f"the {_LABEL} passes with `{run.original}` changed to `{run.altered}`",
        )
        for run in evidence.control_check.altered
        if run.passed
    ]
    return tuple(new)


def _control_summary(control_check: SetupBenchControlCheck | None) -> ControlSummary | None:
    if control_check is None:
        return None
    return ControlSummary(
        pairs=len(control_check.altered),
        controlled=1 if control_check.altered else 0,
        uncontrolled=() if control_check.altered else (_LABEL,),
        passed=(_LABEL,) if any(run.passed for run in control_check.altered) else (),
    )


def _cause_and_reason(evidence: SetupBenchEvidence, rule: Rule, *, ours: bool, official: bool) -> tuple[Cause, str]:
    ran = evidence.official_run
    if ours and evidence.quarantine_result.fake_programs:
        names = ", ".join(evidence.quarantine_result.fake_programs)
        return Cause.TAMPERED, f"the success command passes, but calls a replaced program: {names}"
    if ours:
        return Cause.SOLVED, "the success command passes"
    if official and rule == "marker" and MARKER in ran.stdout + ran.stderr:
        return Cause.TAMPERED, "the success marker was printed by another program than the success command"
    if ran.timed_out:
        return Cause.TEST_TIMEOUT, f"the success command had not ended after {ran.seconds:.0f} s"
    if official and ran.exit_code != 0:
        return Cause.TESTS_FAILED, f"the success command ended with {ran.exit_code}, whatever it printed"
    if official:
        return Cause.TESTS_FAILED, "the success marker was printed, but not as the last output of the success command"
    last = next((line.strip() for line in reversed(ran.stderr.splitlines()) if line.strip()), "")
    ended = f"ended with {ran.exit_code}" if rule == "exit_code" else "does not pass"
    return Cause.TESTS_FAILED, f"the success command {ended}{f': {last[:_MAX_REASON_CHARS]}' if last else ''}"
