"""Our parsers, log reader and rules against those of swebench 5.0.2, and against SWE-EVO's official reports."""

import json
import random
from collections.abc import Callable
from pathlib import Path

import pytest

import swe_official
from paths import sample_data, shared_data
from proctor.benchmarks.swe.environment_steps import SweTestRun
from proctor.benchmarks.swe.eval_log import END_MARKER, START_MARKER, read_log, with_exit_code
from proctor.benchmarks.swe.evo_grader import with_ruling
from proctor.benchmarks.swe.instance_report import official_report
from proctor.benchmarks.swe.official_rules import (
    LabelResults,
    OfficialRuling,
    pass_rate,
    swe_bench,
    swe_bench_pro,
    swe_bench_v4,
)
from proctor.benchmarks.swe.parsers import LEGACY, PARSERS, find_parser
from proctor.benchmarks.swe.row_loading import evo_rows
from proctor.benchmarks.swe.rows import evo_row
from proctor.core.errors import InvalidData

# Lines as the test programs print them, and lines that look like it.
_PRINTED = """\
PASSED tests/a.py::test_one
PASSED tests/a.py::test_two[a b]
PASSED tests/a.py::test_path[/usr/lib/python3/x.py]
PASSED tests/a.py::test_url[//host/x/y]
PASSED tests/a.py::test_glob[/usr/*.py]
PASSED [100%]
FAILED tests/a.py::test_three - assert 1 == 2
FAILED tests/a.py::test_four[x - y] - AssertionError: a - b
FAILED tests/a.py
ERROR tests/b.py
ERROR tests/b.py - ImportError: no
ERRORS in collection
SKIPPED [3] tests/c.py:7: not today
SKIPPED tests/c.py::test_skip
XFAIL tests/d.py::test_x - reason
tests/e.py::test_v PASSED                                      [ 10%]
tests/e.py::test_w FAILED
tests/e.py::test_button[MouseButton.LEFT] PASSED
PASSED tests/e.py::test_button[MouseButton.RIGHT-1]
\x1b[32mPASSED\x1b[0m tests/f.py::\x1b[1mtest_colour\x1b[0m
\x1b[31mFAILED\x1b[0m tests/f.py::\x1b[1mtest_red\x1b[0m - boom
PASSED
test_ok (admin.tests.Some) ... ok
test_OK (admin.tests.Some) ...  OK
test_bad (admin.tests.Some) ... FAIL
test_err (admin.tests.Some) ... ERROR
test_later (admin.tests.Some) ... noise
ok
test_skip (admin.tests.Some) ... skipped 'why'
FAIL: test_bad (admin.tests.Some)
ERROR: test_err (admin.tests.Some)
  Applying sites.0002_alter_domain_unique...test_no_migrations (x.Y) ... ok
--version is equivalent to version ... ok
test_torn (x.Y) ... System check identified no issues (0 silenced)
ok
test_torn_two (x.Y) ... Internal Server Error: /raises/
ok
test_torn_three (x.Y) ... Testing against Django installed in '/x' with up to 4 processes (0 silenced).
ok
test_sum ok
test_product F
test_series E
test_slow[1] ok
____________________ sympy/core/tests/test_x.py:test_y ____________________
[ok]: SADD a set (12 ms)
[err]: SREM a set in tests/unit/x.tcl
[skip]: not here
[ignore]: nor here
PASS: jq one
 FAIL: jq two
pass  basics/a.py
FAIL  basics/b.py
skip  basics/c.py
[       OK ] Suite.Name (0 ms)
1: [  FAILED  ] Suite.Other (3 ms)
--- PASS: TestOne (0.00s)
    --- FAIL: TestOne/sub_case (0.01s)
--- SKIP: TestTwo (0.00s)
+ mvn test -Dtest=FooTest#bar -q
[INFO] BUILD SUCCESS
+ mvn test -Dtest=FooTest#baz -q
[ERROR] BUILD FAILURE
[INFO] BUILD SUCCESS
+ mvn test -Dtest=LateTest
    [junit] [PASS] lombok one
    [junit] [ERR] lombok two
org.Foo > works PASSED
org.Foo > breaks FAILED
> Task :test FAILED
org.Foo > split
warning: something
PASSED
Some Suite (Tests\\Some)
 ✔ It works
 ✘ It does not
 ↩ It waits
TestFoo#test_bar. = 0.01 s = .
TestFoo#test_baz. = 0.01 s = F
features/a.feature:1 ....F
features/b.feature:2 ...
test: adds numbers:  .: (0.001)
subtracts:	F
later: O
is fast - passed
is slow - failed
test core::adds ... ok
test core::drops ... FAILED
test core::waits ... ignored
  ✓ adds two numbers (3 ms)
  ✕ adds three numbers
  ○ skipped one
[PASSED] outer inner works
[FAILED] outer inner breaks
 ✓ src/a.test.ts > works 12ms
 \N{MULTIPLICATION SIGN} src/a.test.ts > breaks
 ↓ src/a.test.ts > waits [skipped]
ok 1 first thing
not ok 2 second thing
20 01 2024 10:00:00.000:INFO [launcher]: Starting browser ChromeHeadless
  outer
    inner
      ✔ works
      ✖ breaks
  other
    ✔ also works
SUMMARY:
  ✔ after the end
<doctest><TestSuite><TestCase name="case"><SubCase name="one"><Expression success="true"/></SubCase>\
<SubCase name="two"><Expression success="false"/></SubCase></TestCase></TestSuite></doctest>
 FAILED tests/indented.py::test_i
tests/z.py FAILED [x]
"""
LINES = _PRINTED.split("\n")
IDS = {
    "parse_log_jekyll": ("jekyll__jekyll-9141", "jekyll__jekyll-8761"),
    "parse_log_immutable_js": ("i__i-2006", "i__i-2005"),
}


def _logs() -> list[str]:
    """The lines as they are, each alone, and shuffled, cut and repeated in many ways."""
    chance = random.Random(6)
    logs = ["\n".join(LINES), *LINES]
    for _ in range(40):
        picked = chance.choices(LINES, k=chance.randint(2, 60))
        logs.append("\n".join(picked))
        logs.append("\n".join(line[: chance.randint(0, len(line))] for line in picked))
    return logs


# What the official parsers fail on is no log that they can be held to.
_NO_ANSWER = {"FAIL:", "ERROR:"}


def test_every_parser_agrees_with_the_official_one() -> None:
    known = [(name, "x__x-1") for name in PARSERS]
    known += [(name, identity) for name, identities in IDS.items() for identity in identities]
    logs = [log for log in _logs() if not any(line.strip() in _NO_ANSWER for line in log.split("\n"))]
    # Official: an XML that is cut, or a suite that ends where none began, is an exception.
    safe = [log for log in logs if ("<doctest" in log) == ("</doctest>" in log)]
    asked = [(name, identity, log) for name, identity in known for log in safe if not _fatal(name, log)]
    said = swe_official.ask(parse=asked)["parsed"]
    differing = {
        (name, log): (find_parser(name, identity)(log), official)
        for (name, identity, log), official in zip(asked, said, strict=True)
        if find_parser(name, identity)(log) != official
    }
    assert not differing
    for name, identity in known:
        assert any(official for (asked_name, _, _), official in zip(asked, said, strict=True) if asked_name == name), (
            f"no log makes {name} ({identity}) say anything"
        )


def _fatal(name: str, log: str) -> bool:
    if name == "parse_log_doctest":
        from xml.etree import ElementTree as ET

        start, end = log.find("<doctest"), log.find("</doctest>")
        try:
            return start >= 0 and bool(ET.fromstring(log[start : end + 10]).tag) is False
        except ET.ParseError:
            return True
    return False


def test_a_parser_of_an_unknown_name_is_refused() -> None:
    with pytest.raises(InvalidData, match="parse_log_cobol"):
        find_parser("parse_log_cobol", "x__x-1")
    with pytest.raises(InvalidData, match="parse_log_jekyll"):
        find_parser("parse_log_jekyll", "jekyll__jekyll-1")


def test_logs_are_read_as_the_official_reader_reads_them(tmp_path: Path) -> None:
    inside = "PASSED a::b\nFAILED a::c - x\n"
    logs = [
        f"{START_MARKER}\n{inside}{END_MARKER}\n",
        f"{START_MARKER}\n{inside}",
        inside,
        f"{START_MARKER}\n{END_MARKER}\n{inside}",
        f"{START_MARKER}\n{END_MARKER}\n",
        f"{START_MARKER}\n3 passing\n{END_MARKER}\n",
        f"{START_MARKER}\nPASSED a::b\n{END_MARKER}\n>>>>> Test Exit Code: 1\n",
        f"{START_MARKER}\nPASSED a::b\n{END_MARKER}\n>>>>> Test Exit Code: 0\n",
        f"{START_MARKER}\n{inside}{END_MARKER}\n>>>>> Test Exit Code: 1\n",
        f"{START_MARKER}\nPASSED a::b\n{END_MARKER}\n>>>>> Test Exit Code: -9\n",
        f">>>>> Patch Apply Failed\n{START_MARKER}\n{inside}{END_MARKER}\n",
        f">>>>> Tests Timed Out\n{START_MARKER}\n{inside}{END_MARKER}\n",
        f"{START_MARKER}\n{inside}{END_MARKER}\n{START_MARKER}\nPASSED a::d\n{END_MARKER}\n",
        f"{START_MARKER}\rdots\rPASSED a::b\r\nPASSED a::c\n{END_MARKER}",
        "",
    ]
    asked = []
    for number, log in enumerate(logs):
        (tmp_path / str(number)).write_bytes(log.encode())
        asked.append(("parse_log_pytest", "x__x-1", str(tmp_path / str(number))))
    said = swe_official.ask(read=asked)["read"]
    ours = [read_log(log, PARSERS["parse_log_pytest"]) for log in logs]
    assert [[read.statuses, not read.parse_error] for read in ours] == said


def test_rules_agree_with_the_official_ones() -> None:
    chance = random.Random(6)
    names = ["a", "b", "c[x", "c[x]", "c[x y]", "d[", "e"]
    words = ["PASSED", "FAILED", "ERROR", "SKIPPED", "XFAIL", "ERRORS"]
    asked = []
    for kind in ("pass_and_fail", "fail_only"):
        for _ in range(400):
            statuses = {name: chance.choice(words) for name in chance.sample(names, k=chance.randint(0, 7))}
            first, second = (chance.sample(names, k=chance.randint(0, 4)) for _ in range(2))
            asked.append((statuses, first, second, kind))
    said = swe_official.ask(rule=asked)["ruled"]
    for (statuses, first, second, kind), (report, status) in zip(asked, said, strict=True):
        ruling = swe_bench(statuses, first, second, fail_only=kind == "fail_only")
        assert list(ruling.fail_to_pass.success) == report["FAIL_TO_PASS"]["success"]
        assert list(ruling.fail_to_pass.failure) == report["FAIL_TO_PASS"]["failure"]
        assert list(ruling.pass_to_pass.success) == report["PASS_TO_PASS"]["success"]
        assert list(ruling.pass_to_pass.failure) == report["PASS_TO_PASS"]["failure"]
        assert ruling.resolved == (status == "RESOLVED_FULL")


def test_a_skipped_test_is_judged_as_each_version_does() -> None:
    skipped = {"a": "SKIPPED", "b": "PASSED"}
    assert not swe_bench(skipped, ["a"], ["b"]).resolved
    assert swe_bench(skipped, ["b"], ["a"]).resolved
    assert swe_bench_v4(skipped, ["a"], ["b"]).resolved
    assert not swe_bench_pro(skipped, ["b"], ["a"]).resolved


def test_an_expected_failure_passes_for_all_but_pro() -> None:
    expected = {"a": "XFAIL"}
    assert swe_bench(expected, ["a"], []).resolved
    assert swe_bench_v4(expected, ["a"], []).resolved
    assert not swe_bench_pro(expected, ["a"], []).resolved


def test_a_missing_test_fails_everywhere() -> None:
    for rule in (swe_bench, swe_bench_v4, swe_bench_pro):
        assert not rule({}, ["a"], []).resolved
        assert not rule({"a": "PASSED"}, ["a"], ["b"]).resolved


def test_the_fix_rate_is_a_share_and_nothing_once_something_broke() -> None:
    half = OfficialRuling(resolved=False, fail_to_pass=LabelResults(success=("a",), failure=("b",)))
    assert half.fix_rate == 0.5
    broke = OfficialRuling(
        resolved=False, fail_to_pass=LabelResults(success=("a",)), pass_to_pass=LabelResults(failure=("c",))
    )
    assert broke.fix_rate == 0.0


def test_the_pass_rate_leaves_skipped_tests_out() -> None:
    assert pass_rate({"a": "PASSED", "b": "XFAIL", "c": "FAILED", "d": "SKIPPED"}) == 0.6667
    assert pass_rate({"d": "SKIPPED"}) == 0.0
    assert pass_rate({}) == 0.0


def test_the_exit_code_is_recorded_outside_of_what_is_parsed() -> None:
    script = with_exit_code(f"a\n: '{START_MARKER}'\npytest\n: '{END_MARKER}'\ngit checkout\n").split("\n")
    assert script[3:6] == [
        "SWEBENCH_TEST_EXIT_CODE=$?",
        f": '{END_MARKER}'",
        'echo ">>>>> Test Exit Code: $SWEBENCH_TEST_EXIT_CODE"',
    ]
    assert with_exit_code("no markers\n") == "no markers\n"


@pytest.mark.parametrize(
    ("data", "count"),
    [pytest.param(sample_data, 6, id="our-sample"), pytest.param(shared_data, 14, id="real-sample")],
)
def test_official_logs_of_evo_give_exactly_their_official_reports(data: Callable[..., Path], count: int) -> None:
    logs = data("swe_evo", "official_logs")
    rows = {row["instance_id"]: evo_row(row) for row in evo_rows(data("swe_evo", "tasks"))}
    checked = 0
    for folder in sorted(logs.iterdir()):
        tested = with_ruling(rows[folder.name], SweTestRun(applied=True, log=(folder / "test_output.txt").read_bytes()))
        assert official_report(folder.name, tested) == json.loads((folder / "report.json").read_text())
        checked += 1
    assert checked == count


def test_parsers_of_the_older_version_know_what_they_knew() -> None:
    log = "FAILED [ 10%] tests/a.py::b\n\x1b[32mPASSED\x1b[0m tests/a.py::c d\ntests/a.py::e XFAIL\n"
    assert LEGACY["parse_log_pytest_pydantic"](log) == {
        "tests/a.py::b": "FAILED",
        "tests/a.py::c": "PASSED",
        "tests/a.py::e": "XFAIL",
    }
    assert LEGACY["parse_log_pytest_v2"](log)["["] == "FAILED"
