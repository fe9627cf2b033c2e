"""From what a verifier left behind to the verdict. The status of the verifier's script says nothing: it is always 0."""

import json
import re
from pathlib import PurePosixPath
from typing import Any, Final, Literal

from msgspec import field

from proctor.core.causes import Cause, Status
from proctor.core.record import Record
from proctor.core.verdict import ControlSummary, Finding, TestStatus, Verdict
from proctor.grading.state import EnvironmentCode, GradingTarget, QuarantinedEnvironment, ShellResult

_SUMMARY: Final = re.compile(r"^=+ (?P<counts>(?:\d+ [a-z]+(?:, )?)+).* in [\d.:hms ()]+=+$", re.MULTILINE)
_RESULT_LINE: Final = re.compile(r"^(PASSED|FAILED|ERROR|SKIPPED|XFAIL|XPASS) (\S+::\S.*?)(?: - .*)?$", re.MULTILINE)
_STATUSES: Final = {
    "passed": TestStatus.PASSED,
    "failed": TestStatus.FAILED,
    "error": TestStatus.ERROR,
    "skipped": TestStatus.SKIPPED,
    "pending": TestStatus.SKIPPED,
    "other": TestStatus.ERROR,
    "xfail": TestStatus.XFAILED,
    "xpass": TestStatus.XPASSED,
}
WHOLE_SCRIPT: Final = "test.sh"
_COUNT: Final = re.compile(r"(\d+) ([a-z]+)")
_MAX_KILLED_SHOWN: Final = 3
# What the agent's code may have written too: no report has more, and no sum of such numbers is infinite.
_MAX_TESTS: Final = 20_000
_MAX_REWARDS: Final = 200
_MAX_NAME: Final = 500
_MAX_NUMBER: Final = 1e100
_FAILED_WORDS: Final = frozenset({"failed", "error", "errors", "xpassed"})
# What a verifier decides with; a fake of another program may be the very thing that a task asks for.
_VERIFIER_PROGRAMS: Final = frozenset(
    {"bash", "cat", "curl", "env", "grep", "pytest", "python", "python3", "sh", "uv", "uvx"}
)


class HarborControlCheck(Record):
    """What copies of the machine showed, which the agent's processes cannot reach.

    Attributes:
        target: where the verifier passes; None: nowhere.
        cause: what is against the machine; None: nothing, and `reason` says no more.
        controls: how far the tests were altered.
    """

    target: GradingTarget | None = field(name="place")
    controls: ControlSummary
    cause: Cause | None = None
    reason: str = ""
    findings: tuple[Finding, ...] = ()


class HarborEvidence(Record):
    """What was seen of an environment by its verifier.

    Attributes:
        rewards: as the verifier wrote them; None: it wrote none that can be read, and `problem` says why.
        tests: how many tests ended how, as its report or its output has it; None: there is no sign of any.
        planted: what lay, before the verifier ran, where it writes.
        verifier_runs: how often the verifier ran; again where it broke, not where it failed.
        works_untouched: it broke here, and comes to a result where nobody has worked.
        statuses: how single tests ended, where its report or its output names them.
        refused_hosts: the hosts that were asked for, in all phases, and are not among those that the task allows.
        control_check: None where the verifier gave less than a full reward and nothing is against that, or controls
            were turned off.
    """

    task_id: str
    rewards: dict[str, float] | None
    problem: str
    tests: dict[str, int] | None
    verifier_run: ShellResult
    quarantine_result: QuarantinedEnvironment
    environment: str
    tests_expected: bool
    planted: tuple[str, ...] = ()
    verifier_runs: int = 1
    works_untouched: bool = False
    statuses: dict[str, TestStatus] = field(default_factory=dict)
    refused_hosts: tuple[str, ...] = ()
    control_check: HarborControlCheck | None = field(default=None, name="exam")
    schema_version: Literal["proctor.harbor_evidence@1"] = "proctor.harbor_evidence@1"

    @property
    def is_inconclusive(self) -> bool:
        """Whether the verifier came to no result of its own: it could not be installed, or did not start."""
        if self.verifier_run.timed_out:
            return False
        return self.rewards is None or (self.reward < 1 and self.tests_expected and self.tests is None)

    @property
    def is_part(self) -> bool:
        """Whether the verifier came to a result that is neither nothing nor a full reward."""
        return not self.verifier_run.timed_out and not self.is_inconclusive and 0 < self.reward < 1

    @property
    def reward(self) -> float:
        """The one number: the reward of that name, or the mean of those that there are."""
        if not self.rewards:
            return 0.0
        return self.rewards.get("reward", sum(self.rewards.values()) / len(self.rewards))


def comes_to_a_result(evidence: HarborEvidence) -> bool:
    """Whether the verifier did: gave a reward, for tests that ran."""
    return not evidence.verifier_run.timed_out and not evidence.is_inconclusive


# What a report that is none leads to.
_UNREADABLE: Final = (KeyError, TypeError, ValueError, OverflowError, RecursionError)


def read_rewards(files: dict[str, bytes]) -> tuple[dict[str, float] | None, str]:
    """The rewards that a verifier wrote: ``reward.json``, else ``reward.txt``; why there are none."""
    if "reward.json" in files:
        try:
            value = json.loads(files["reward.json"])
        except (ValueError, RecursionError):
            return None, "reward.json is not JSON"
        if not isinstance(value, dict) or not value or not all(_is_number(number) for number in value.values()):
            return None, "reward.json is not an object of finite numbers"
        if len(value) > _MAX_REWARDS or max(map(len, value)) > _MAX_NAME:
            return None, f"reward.json has more than {_MAX_REWARDS} rewards, or one with a name that is too long"
        return {name: float(number) for name, number in value.items()}, ""
    if "reward.txt" not in files:
        return None, "the verifier wrote no reward"
    try:
        number = float(files["reward.txt"].decode("ascii"))
    except ValueError:
        return None, "reward.txt is not a number"
    return ({"reward": number}, "") if _is_number(number) else (None, "reward.txt is not a finite number")


def read_tests(files: dict[str, bytes], output: str) -> dict[str, int] | None:
    """How many tests ended how: from the verifier's report, else from the last summary that pytest printed."""
    try:
        summary = json.loads(files["ctrf.json"])["results"]["summary"]
        return {
            name: int(summary[name]) for name in ("passed", "failed", "skipped", "pending", "other") if name in summary
        }
    except _UNREADABLE:
        pass
    found = list(_SUMMARY.finditer(output))
    return {name: int(count) for count, name in _COUNT.findall(found[-1]["counts"])} if found else None


def read_statuses(files: dict[str, bytes], output: str) -> dict[str, TestStatus]:
    """How single tests ended, by their files below the verifier's folder and their names: by its report, or output."""
    try:
        listed = [
            (str(test["name"]), str(test["status"])) for test in json.loads(files["ctrf.json"])["results"]["tests"]
        ]
    except _UNREADABLE:
        listed = []
    if not any("::" in name for name, _ in listed):
        listed = [(match[2], match[1].lower()) for match in _RESULT_LINE.finditer(output)] or listed
    return {_test_id(name[:_MAX_NAME]): _STATUSES.get(status, TestStatus.ERROR) for name, status in listed[:_MAX_TESTS]}


def _test_id(name: str) -> str:
    head, separator, tail = name.strip().partition("::")
    parts = PurePosixPath(head).parts
    if not separator or not parts:
        return name.strip()
    below = parts[parts.index("tests") + 1 :] if "tests" in parts else parts[-1:]
    return f"{'/'.join(below)}::{tail}"


def judge(evidence: HarborEvidence, grader: str) -> Verdict:
    """The verdict on an environment. `official` is what the leaderboard would count."""
    reward = evidence.reward
    failed = sum(count for name, count in (evidence.tests or {}).items() if name in _FAILED_WORDS)
    passed = (evidence.tests or {}).get("passed", 0)
    official = Status.RESOLVED if reward >= 1 else Status.UNRESOLVED
    fakes = [name for name in evidence.quarantine_result.fake_programs if name in _VERIFIER_PROGRAMS]
    status, cause, reason = official, Cause.SOLVED, f"the verifier gives {reward:g}"
    if evidence.verifier_run.timed_out:
        status, cause = Status.UNRESOLVED, Cause.TEST_TIMEOUT
        reason = f"the verifier had not ended after {evidence.verifier_run.seconds:.0f} s"
        official = status
    elif evidence.is_inconclusive:
        status, cause = Status.ERROR, Cause.GRADER_FAILED
        why = evidence.problem or "its tests never ran, as neither a report nor a summary shows"
        if evidence.works_untouched:
            status, cause = official, Cause.TESTS_FAILED
            why += ", while it comes to a result on a machine that nobody has worked on"
        reason = f"the verifier broke, {evidence.verifier_runs} times: {why}"
        reason += f"{_kill_note(evidence.quarantine_result.killed)}; what it printed is in verifier.out"
    elif reward >= 1 and evidence.tests_expected and not passed:
        status, cause, reason = Status.UNRESOLVED, Cause.TAMPERED, "a full reward, but nothing shows that tests ran"
    elif reward >= 1 and failed:
        status, cause = Status.UNRESOLVED, Cause.TAMPERED
        reason = f"a full reward, but {failed} tests did not pass"
    elif reward >= 1 and fakes:
        status, cause = Status.UNRESOLVED, Cause.TAMPERED
        reason = f"a full reward, but the verifier calls a replaced program: {', '.join(fakes)}"
    elif reward < 1 and evidence.control_check is not None and evidence.control_check.cause is Cause.TAMPERED:
        cause, reason = Cause.TAMPERED, evidence.control_check.reason
    elif reward < 1:
        cause, reason = Cause.TESTS_FAILED, f"{reason}{_kill_note(evidence.quarantine_result.killed)}"
    elif evidence.control_check is not None and evidence.control_check.cause is not None:
        status, cause, reason = Status.UNRESOLVED, evidence.control_check.cause, evidence.control_check.reason
    return Verdict(
        task_id=evidence.task_id,
        status=status,
        cause=cause,
        reason=reason,
        score=_score(status, cause, reward if status is official else 0.0),
        scores=evidence.rewards or {},
        official=official if official is not status else None,
        findings=tuple(dict.fromkeys((*_planted_findings(evidence), *_other_findings(evidence)))),
        controls=evidence.control_check.controls if evidence.control_check is not None else None,
        grader=grader,
        seconds=round(evidence.verifier_run.seconds, 3),
    )


def _kill_note(killed: tuple[str, ...]) -> str:
    """Names the processes that ran no more when the verifier did: their end may be why it fails."""
    if not killed:
        return ""
    named = ", ".join(f"`{command.strip()}`" for command in killed[:_MAX_KILLED_SHOWN])
    rest = len(killed) - _MAX_KILLED_SHOWN
    return f"; killed before it, as they listened on no socket: {named}{f' and {rest} more' if rest > 0 else ''}"


def _score(status: Status, cause: Cause, reward: float) -> float | None:
    """What a reward is worth: nothing to be had from a verifier that broke, none of one that was forged or late."""
    if status is Status.ERROR:
        return None
    return 0.0 if cause in {Cause.TAMPERED, Cause.TEST_TIMEOUT} else min(max(reward, 0.0), 1.0)


def _planted_findings(evidence: HarborEvidence) -> tuple[Finding, ...]:
    code = EnvironmentCode.PLANTED_RESULT
    return tuple(Finding(code=code.value, path=path, detail=code.meaning) for path in evidence.planted)


def _other_findings(evidence: HarborEvidence) -> tuple[Finding, ...]:
    """Those of the machine, and those of its copies that are not the same."""
    found = evidence.quarantine_result.findings
    known = {(finding.code, finding.path) for finding in found}
    check_findings = evidence.control_check.findings if evidence.control_check is not None else ()
    return (*found, *(finding for finding in check_findings if (finding.code, finding.path) not in known))


def _is_number(value: Any) -> bool:
    """Whether it is a number that can be added up: integers of JSON may be too large for that, too."""
    return isinstance(value, int | float) and not isinstance(value, bool) and -_MAX_NUMBER <= value <= _MAX_NUMBER
