import json
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plain_environment import environment_of
from proctor.grading import InconclusiveKind, InconclusiveRun, TestFormat, TestPlan, TestResults, run_tests
from proctor.grading.go_test_json import parse_go_events


def events(*lines: str) -> bytes:
    """Events in short: ``action package test``."""
    made = []
    for line in lines:
        action, package, *test = line.split(" ")
        made.append(json.dumps({"Action": action, "Package": package, **({"Test": test[0]} if test else {})}))
    return "\n".join(made).encode()


def read(data: bytes) -> TestResults:
    outcome = parse_go_events(data)
    assert isinstance(outcome, TestResults), outcome
    return outcome


def statuses(outcome: TestResults) -> dict[str, str]:
    return {name: status.value for name, status in outcome.tests.items()}


def test_tests_and_subtests_end_as_their_last_event_says() -> None:
    data = events(
        "start m/a", "run m/a TestA", "run m/a TestA/x", "output m/a TestA/x", "pass m/a TestA/x", "pass m/a TestA",
        "run m/a TestB", "pause m/a TestB", "run m/a TestC", "skip m/a TestC", "cont m/a TestB", "fail m/a TestB",
        "fail m/a",
    )  # fmt: skip
    assert statuses(read(data)) == {
        "m/a::TestA/x": "passed",
        "m/a::TestA": "passed",
        "m/a::TestB": "failed",
        "m/a::TestC": "skipped",
    }


def test_a_pass_without_a_start_is_an_error() -> None:
    assert statuses(read(events("pass m/a TestA", "pass m/a"))) == {"m/a::TestA": "error"}


def test_a_pass_does_not_make_up_for_a_failure() -> None:
    data = events("run m/a T", "fail m/a T", "run m/a T", "pass m/a T", "fail m/a", "pass m/a")
    assert statuses(read(data)) == {"m/a::T": "failed"}


def test_a_test_that_never_ended_is_an_error_even_in_a_package_that_passed() -> None:
    assert statuses(read(events("run m/a T", "pass m/a"))) == {"m/a::T": "error"}


def test_a_package_that_does_not_build_is_broken() -> None:
    data = b'# m/a\n./a.go:3: undefined\n{"ImportPath":"m/a","Action":"build-fail"}\n' + events("start m/a", "fail m/a")
    outcome = read(data)
    assert outcome.tests == {}
    assert list(outcome.broken) == ["m/a"]


def test_a_package_that_fails_without_a_failing_test_is_broken() -> None:
    outcome = read(events("run m/a T", "pass m/a T", "fail m/a"))
    assert list(outcome.broken) == ["m/a"]


def test_a_package_without_a_result_cuts_the_run_short() -> None:
    outcome = parse_go_events(events("run m/a T", "pass m/a T", "pass m/a", "run m/b T", "pass m/b T"))
    assert isinstance(outcome, InconclusiveRun)
    assert outcome.kind is InconclusiveKind.CUT_SHORT
    assert "m/b" in outcome.reason


@pytest.mark.parametrize("data", [b"", b"ok  \tm/a\t0.1s\n", b"{}", b"[1]\n{\n"])
def test_output_without_events_is_malformed(data: bytes) -> None:
    outcome = parse_go_events(data)
    assert isinstance(outcome, InconclusiveRun)
    assert outcome.kind is InconclusiveKind.MALFORMED


@given(st.binary(max_size=300))
def test_any_bytes_are_read_without_an_exception(data: bytes) -> None:
    parse_go_events(data)
    parse_go_events(b"{" + data)


names = st.sampled_from(["run", "pass", "fail", "skip", "output", "start", "build-fail"])


@given(st.lists(st.tuples(names, st.sampled_from(["p", "q"]), st.sampled_from(["", "A", "B"])), max_size=15))
def test_nothing_passes_that_did_not_start(stream: list[tuple[str, str, str]]) -> None:
    outcome = parse_go_events(events(*(" ".join(filter(None, event)) for event in stream)))
    started = {f"{package}::{test}" for action, package, test in stream if action == "run" and test}
    passed = outcome.tests if isinstance(outcome, TestResults) else outcome.partial
    assert {name for name, status in passed.items() if status.value == "passed"} <= started


@pytest.mark.slow
async def test_what_go_itself_writes_is_read(tmp_path: Path) -> None:
    go = shutil.which("go")
    if go is None:
        pytest.skip("go is not installed")
    files = {
        "go.mod": "module example.com/m\ngo 1.20\n",
        "ok/a_test.go": """package ok
import ("fmt"; "testing")
func TestOk(t *testing.T) { fmt.Println("--- PASS: TestFake (0.00s)") }
func TestSub(t *testing.T) { t.Run("good", func(t *testing.T) {}); t.Run("bad one", func(t *testing.T) { t.Fail() }) }
func TestSkip(t *testing.T) { t.Skip("not now") }
""",
        "bad/b_test.go": 'package bad\nimport "testing"\nfunc TestX(t *testing.T) { undefined() }\n',
        "exits/e_test.go": """package exits
import ("os"; "testing")
func TestExit(t *testing.T) { os.Exit(0) }
""",
    }
    # The machine's own build cache: compiling Go's library anew takes a minute.
    cache = subprocess.run([go, "env", "GOCACHE"], capture_output=True, text=True, check=True).stdout.strip()
    variables = {"GOCACHE": cache, "GOFLAGS": "-mod=mod", "GOPROXY": "off", "GOTOOLCHAIN": "local"}
    plan = TestPlan(format=TestFormat.GO, command=(go, "test", "-vet=off", "-json", "./..."), variables=variables)
    run = await run_tests(environment_of(tmp_path / "work", files), plan, timeout=100)
    assert isinstance(run.outcome, TestResults)
    assert statuses(run.outcome) == {
        "example.com/m/ok::TestOk": "passed",
        "example.com/m/ok::TestSub": "failed",
        "example.com/m/ok::TestSub/good": "passed",
        "example.com/m/ok::TestSub/bad_one": "failed",
        "example.com/m/ok::TestSkip": "skipped",
        "example.com/m/exits::TestExit": "failed",
    }
    assert list(run.outcome.broken) == ["example.com/m/bad"]
