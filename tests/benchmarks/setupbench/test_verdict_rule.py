"""The benchmark's rule and ours, on what a grader can see."""

import subprocess
from typing import Literal

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from proctor.benchmarks.setupbench.quirks import GraderBug, Quirk
from proctor.benchmarks.setupbench.verdict_rule import (
    AlteredRun,
    SetupBenchControlCheck,
    SetupBenchEvidence,
    blocked_evidence,
    judge,
    passes_official,
    passes_strict,
    with_token,
)
from proctor.core.causes import Cause, Status
from proctor.core.verdict import ControlSummary, Verdict
from proctor.grading.state import GradingTarget, QuarantinedEnvironment, ShellResult

TOKEN = "setup-0123456789"
SAID = "Setup successful"


def ran(stdout: str = "", stderr: str = "", code: int = 0, *, timed_out: bool = False) -> ShellResult:
    return ShellResult(exit_code=code, stdout=stdout, stderr=stderr, seconds=1.0, timed_out=timed_out)


def really(command: str) -> ShellResult:
    """What a real shell makes of a command."""
    done = subprocess.run(["sh", "-c", with_token(command, TOKEN)], capture_output=True, text=True, check=False)
    return ran(done.stdout, done.stderr, done.returncode)


def verdict(
    seen: ShellResult,
    rule: Literal["exit_code", "marker"] = "marker",
    *,
    fakes: tuple[str, ...] = (),
    quirk: Quirk | None = None,
    strict: ShellResult | None = None,
) -> Verdict:
    settled = QuarantinedEnvironment(grader_dir="/run/x", search_path="/bin", fake_programs=fakes)
    evidence = SetupBenchEvidence(
        task_id="t", token=TOKEN, official_run=seen, quarantine_result=settled, environment="e", strict_run=strict
    )
    return judge(evidence, rule, quirk, "g")


@pytest.mark.parametrize(
    ("command", "rule", "official", "ours"),
    [
        (f"true && echo '{SAID}' || echo 'Setup failed'", "marker", True, True),
        (f"false && echo '{SAID}' || echo 'Setup failed'", "marker", False, False),
        ("true", "exit_code", True, True),
        ("no-such-program", "exit_code", False, False),
        ("true", "marker", False, False),
        (f"echo '{SAID}' >&2; exit 1", "marker", True, False),
        (f"echo '{SAID}'; echo 'Setup failed'", "marker", True, False),
        (f"echo 'Setup failed'; echo '{SAID}'", "marker", True, True),
        (f"if true; then echo '{SAID}'", "marker", False, False),
        (f"set -x; false && echo '{SAID}'", "marker", False, False),
        (f"python3 -c \"x = ('{SAID}' if\"", "marker", True, False),
        (f"echo '{SAID}'; kill -TERM $$", "marker", True, False),
        (f"echo '{SAID}'; exit 3", "marker", True, False),
        (f"printf '  {SAID}  \\n'", "marker", True, True),
    ],
)
def test_the_edge_cases_of_both_rules(
    command: str, rule: Literal["exit_code", "marker"], official: bool, ours: bool
) -> None:
    seen = really(command)
    assert (passes_official(seen, TOKEN, rule), passes_strict(seen, TOKEN, rule)) == (official, ours), seen


def test_words_that_the_command_did_not_print_are_no_success() -> None:
    forged = verdict(ran(f"{SAID}\n"))
    assert (forged.status, forged.cause, forged.official) == (Status.UNRESOLVED, Cause.TAMPERED, Status.RESOLVED)
    traceback = verdict(ran("", f"    print('{TOKEN}' if 'SMA' in dir(talib))\nModuleNotFoundError", 1))
    assert (traceback.status, traceback.cause) == (Status.UNRESOLVED, Cause.TESTS_FAILED)
    assert traceback.official is Status.RESOLVED


def test_a_success_that_rests_on_a_fake_program_is_refused() -> None:
    fake = verdict(ran(f"{TOKEN}\n"), fakes=("curl",))
    assert (fake.status, fake.cause, fake.official) == (Status.UNRESOLVED, Cause.TAMPERED, Status.RESOLVED)
    assert "curl" in fake.reason
    assert verdict(ran("Setup failed\n"), fakes=("curl",)).cause is Cause.TESTS_FAILED


def test_a_grader_that_is_too_kind_needs_a_second_opinion() -> None:
    quirk = Quirk(bug=GraderBug.TOO_LENIENT, description="counts nothing", strict_command="a stricter one")
    assert verdict(ran(f"{TOKEN}\n"), quirk=quirk, strict=ran(f"{TOKEN}\n")).status is Status.RESOLVED
    empty = verdict(ran(f"{TOKEN}\n"), quirk=quirk, strict=ran("Setup failed\n"))
    assert (empty.status, empty.official) == (Status.UNRESOLVED, Status.RESOLVED)
    assert "counts nothing" in empty.reason
    assert verdict(ran("Setup failed\n"), quirk=quirk, strict=ran(f"{TOKEN}\n")).status is Status.UNRESOLVED


def test_a_grader_that_cannot_pass_is_answered_by_a_like_one_and_stays_official() -> None:
    quirk = Quirk(
        bug=GraderBug.UNPASSABLE, description="asks in vain", strict_command="a like one", replaces_official=True
    )
    right = verdict(ran("Setup failed\n"), quirk=quirk, strict=ran(f"{TOKEN}\n"))
    assert (right.status, right.official, right.scores["official"]) == (Status.RESOLVED, Status.UNRESOLVED, 0.0)
    assert verdict(ran("Setup failed\n"), quirk=quirk, strict=ran()).official is None
    forged = verdict(ran(f"{SAID}\n"), quirk=quirk, strict=ran(f"{TOKEN}\n"))
    assert forged.status is Status.UNRESOLVED


def test_a_grader_that_does_not_end_has_not_passed() -> None:
    for rule in ("marker", "exit_code"):
        late = verdict(ran(code=0, timed_out=True), rule)
        assert (late.status, late.cause, late.official) == (Status.UNRESOLVED, Cause.TEST_TIMEOUT, None)


def test_a_machine_on_which_nothing_runs_has_failed() -> None:
    dead = judge(blocked_evidence("t", "e"), "marker", None, "g")
    assert (dead.status, dead.cause) == (Status.UNRESOLVED, Cause.TESTS_FAILED)
    assert [finding.code for finding in dead.findings] == ["hindered"]


@given(st.text(), st.text(), st.integers(-1, 255), st.booleans())
def test_nothing_that_does_not_hold_the_token_is_resolved(stdout: str, stderr: str, code: int, timed_out: bool) -> None:
    seen = verdict(ran(stdout.replace(TOKEN, ""), stderr, code, timed_out=timed_out))
    assert seen.status is Status.UNRESOLVED


def test_a_command_that_ends_its_own_process_group_may_be_terminated() -> None:
    seen = ran(f"{TOKEN}\n", code=143)
    assert passes_strict(seen, TOKEN, "marker", "serve & kill -TERM -$group")
    assert not passes_strict(seen, TOKEN, "marker", "serve")


def test_stored_evidence_keeps_its_keys() -> None:
    check = SetupBenchControlCheck(target=GradingTarget.COPY, plain=None)
    seen = SetupBenchEvidence(
        task_id="t",
        token=TOKEN,
        official_run=ran(TOKEN),
        quarantine_result=QuarantinedEnvironment(grader_dir="", search_path=""),
        environment="docker:x",
        control_check=check,
    )
    assert msgspec.json.decode(msgspec.json.encode(seen))["exam"]["place"] == "copy"


def test_copies_of_a_machine_decide_where_the_command_passes() -> None:
    failed = AlteredRun(part="answer", original="done", altered="x", run=ran("Setup failed"), passed=False)
    passed = msgspec.structs.replace(failed, passed=True, run=ran(TOKEN))
    seen = SetupBenchEvidence(
        task_id="t",
        token=TOKEN,
        official_run=ran(TOKEN),
        quarantine_result=QuarantinedEnvironment(grader_dir="", search_path=""),
        environment="docker:x",
    )

    def judged(control_check: SetupBenchControlCheck) -> Verdict:
        return judge(msgspec.structs.replace(seen, control_check=control_check), "marker", None, "g")

    good = judged(SetupBenchControlCheck(target=GradingTarget.COPY, plain=ran(TOKEN), altered=(failed,)))
    assert (good.status, good.findings) == (Status.RESOLVED, ())
    assert good.controls == ControlSummary(pairs=1, controlled=1)
    none = judged(SetupBenchControlCheck(target=GradingTarget.COPY, plain=ran(TOKEN)))
    assert (none.status, none.controls) == (
        Status.RESOLVED,
        ControlSummary(pairs=0, controlled=0, uncontrolled=("success command",)),
    )
    forged = judged(SetupBenchControlCheck(target=GradingTarget.COPY, plain=ran(TOKEN), altered=(failed, passed)))
    assert (forged.cause, forged.official) == (Cause.TAMPERED, Status.RESOLVED)
    assert [finding.code for finding in forged.findings] == ["control-passed"]
    assert "`done` changed to `x`" in forged.findings[0].detail
    live = judged(SetupBenchControlCheck(target=None, plain=ran("Setup failed")))
    assert (live.cause, [finding.code for finding in live.findings]) == (Cause.TESTS_FAILED, ["only-live"])
    assert judged(SetupBenchControlCheck(target=None, plain=None)).cause is Cause.TAMPERED
    fake = SetupBenchControlCheck(
        target=GradingTarget.COPY, plain=ran(TOKEN), altered=(failed,), fake_programs=("psql",)
    )
    assert judged(fake).cause is Cause.TAMPERED
