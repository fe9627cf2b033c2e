import shutil
import subprocess
from pathlib import Path

import pytest

from altered_sources import changes, concerned
from proctor.grading.controls import alter, find_alterations

CHECK = """check() {
    count=$((count + 1))
    if [ "$2" = "$3" ]; then
        echo "ok $count - $1"
    else
        echo "not ok $count - $1"
    fi
}
"""
OTHER = """is() {
    got=$1 want=$2
    shift 2
    [ "$got" = "$want" ] && echo "ok - $1" || echo "not ok - $1"
}
"""


@pytest.mark.parametrize(
    ("call", "first"),
    [
        ('check "adds" "3" "$(sum 1 2)"', 'check "adds" "4" "$(sum 1 2)"'),
        ("check 'adds' 3 \"$?\"", "check 'adds' 2 \"$?\""),
        ("check adds '[a b]' \"$(f)\"", "check adds '[a c]' \"$(f)\""),
        ('check "adds" "" "$(f)"', 'check "adds" "x" "$(f)"'),
        ('check "adds" "1 $(f) two" "$(g)"', 'check "adds" "1 $(f) twp" "$(g)"'),
        ('check "adds" "$(f)" "$(g)"', 'check "adds" "x$(f)" "$(g)"'),
        ('check "adds" $x "$(g)"', 'check "adds" x$x "$(g)"'),
        ('is "$(f)" "want" adds', 'is "$(f)" "wanu" adds'),
        ('expect_output adds "text" run f', 'expect_output adds "text" run g'),
    ],
)
def test_what_a_check_compares_is_changed(call: str, first: str) -> None:
    assert changes("run.sh", f"{CHECK}{OTHER}{call}\n", "adds")[0] == first


def test_what_a_check_is_not_known_to_compare_stays_as_it_is() -> None:
    found = changes("run.sh", f'{CHECK}check "adds" "3" "$(sum 1 2)" extra\n', "adds")
    assert all("extra" in line for line in found)


def test_an_expected_text_of_several_lines() -> None:
    found = changes("run.sh", f'{CHECK}check "adds" "one\n2 two" "$(f)"\n', "adds")
    assert found[0] == '2 twp" "$(f)"'


def test_a_check_inside_of_a_function_is_altered_in_a_copy_of_it() -> None:
    source = f"""{CHECK}
refuse() {{
    printf '%s' "$2" >env
    # and then
    load env >out
    check "refused: $1" "1 env:2" "$? $(cat out)"
}}
refuse "no name" '=x'
refuse "a blank" 'a =x'
"""
    tests = ["refused: no name", "refused: a blank"]
    assert changes("run.sh", source, tests[0], tests)[0] == (
        "refuse_2() { printf '%s' \"$2\" >env; load env >out; "
        'check "refused: $1" "1 env:3" "$? $(cat out)"; }; refuse_2 "no name" \'=x\''
    )
    assert all(some == {(test,)} for test, some in concerned("run.sh", source, tests).items())


def test_where_no_copy_can_be_made_all_that_fit_are_altered_together() -> None:
    source = f"""{CHECK}
refuse() {{
    if load "$2"; then
        check "refused: $1" 1 0
    fi
}}
refuse "no name" '=x'
refuse "a blank" 'a =x'
"""
    tests = ["refused: no name", "refused: a blank"]
    assert concerned("run.sh", source, tests) == {test: {tuple(tests)} for test in tests}
    assert changes("run.sh", source, tests[0], tests)[0] == 'check "refused: $1" 2 0'


def test_checks_in_a_loop_are_altered_together() -> None:
    source = f'{CHECK}for pair in "a b" "c d"; do\n    check "twice: $pair" "2  0" "$(f $pair)"\ndone\n'
    tests = ["twice: a b", "twice: c d"]
    assert concerned("run.sh", source, tests) == {test: {tuple(tests)} for test in tests}


@pytest.mark.parametrize(
    ("condition", "firsts"),
    [
        ('[ "$out" = "text" ]', ['[ "$out" = "texu" ]', '[ "$out" != "text" ]']),
        ('[ "$code" -eq 0 ]', ['[ "$code" -eq 1 ]', '[ "$code" -ne 0 ]']),
        ("[[ $out == *text* ]]", ["[[ $out == *texu* ]]"]),
        ("[[ $out =~ ^ab+ ]]", ["[[ $out =~ ^ac+ ]]"]),
        ('test "$out" = text', ['test "$out" = texu', 'test "$out" != text']),
        ("[ -e file ]", ["[ ! -e file ]"]),
        ("[ ! -e file ]", ["[ -e file ]"]),
        ('[ -z "$out" ]', ['[ -n "$out" ]']),
        ("grep -q pattern out", ["grep -q pattero out", "! grep -q pattern out"]),
        ("run | grep -q 'a b'", ["run | grep -q 'a c'"]),
        ("! run", ["run"]),
        ("run", ["! run"]),
    ],
)
def test_a_decision_between_ok_and_not_ok_is_changed(condition: str, firsts: list[str]) -> None:
    source = f'if {condition}; then\n    echo "ok 1 - adds"\nelse\n    echo "not ok 1 - adds"\nfi\n'
    found = changes("run.sh", source, "adds")
    assert found[: len(firsts)] == [f"if {first}; then" for first in firsts]
    short = changes("run.sh", f'{condition} && echo "ok 1 - adds" || echo "not ok 1 - adds"\n', "adds")
    assert short[0] == f'{firsts[0]} && echo "ok 1 - adds" || echo "not ok 1 - adds"'


def test_tests_of_bats() -> None:
    source = """#!/usr/bin/env bats
@test "adds numbers" {
  run sum 1 2
  [ "$status" -eq 0 ]
  [ "$output" = "3" ]
  assert_output --partial "3"
  assert_success
}

@test 'other' {
  run f
}
"""
    found = changes("sum.bats", source, "adds numbers", ["adds numbers", "other"])
    assert found[:4] == [
        '[ "$status" -eq 1 ]',
        '[ "$output" = "4" ]',
        'assert_output --partial "4"',
        "assert_failure",
    ]
    assert found[-1] == "assert_success; false"
    assert changes("sum.bats", source, "other", ["adds numbers", "other"]) == ["run f; false"]


def test_tests_of_shunit_and_sharness() -> None:
    source = 'test_adds() {\n    assertEquals "sum" 3 "$(sum 1 2)"\n}\n'
    assert 'assertEquals "sum" 2 "$(sum 1 2)"' in changes("run.sh", source, "test_adds")
    sharness = """test_expect_success 'adds' '
    cat >expect <<-EOF &&
	three
	EOF
    sum 1 2 >actual &&
    test_cmp expect actual
'
"""
    assert changes("t0001.sh", sharness, "adds")[0] == "thref"


def test_expected_files_are_changed() -> None:
    source = 'test_adds() {\n    echo "3" >want\n    sum 1 2 >got\n    diff want got\n}\n'
    assert changes("run.sh", source, "test_adds")[0] == 'echo "4" >want'


def test_a_script_that_is_one_test() -> None:
    source = '#!/bin/sh\nset -e\nout=$(sum 1 2)\n[ "$out" = 3 ]\nif [ -e core ]; then\n    exit 1\nfi\n'
    for test in ("tests/sum", "tests/sum.sh"):
        found = changes("tests/sum.sh", source, test)
        assert found[0] == '[ "$out" = 2 ]'
        assert "if [ ! -e core ]; then" in found
        assert found[-1] == "fi; exit 1"


def test_commands_that_a_check_runs() -> None:
    source = 'ok() {\n    name=$1\n    shift\n    if "$@"; then echo "ok - $name"; else echo "not ok - $name"; fi\n}\n'
    assert 'ok "adds" false sum 1 2' in changes("run.sh", f'{source}ok "adds" sum 1 2\n', "adds")


def test_scripts_that_a_check_evaluates() -> None:
    source = 'ok() {\n    if eval "$2"; then echo "ok - $1"; else echo "not ok - $1"; fi\n}\n'
    found = changes("run.sh", f"{source}ok adds 'test \"$(sum 1 2)\" = 3'\n", "adds")
    assert any("= 2'" in line for line in found)


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")
def test_altered_scripts_print_the_same_tests(tmp_path: Path) -> None:
    source = f'{CHECK}check "adds" "3" "$((1 + 2))"\ncheck "names" "a\'b" "a\'b"\necho "1..$count"\n'
    for test in ("adds", "names"):
        for one in find_alterations("run.sh", source.encode(), ["adds", "names"])[test]:
            script = tmp_path / "run.sh"
            script.write_bytes(alter(source.encode(), [one]))
            printed = subprocess.run(["bash", str(script)], capture_output=True, text=True, check=True).stdout
            assert [line.rpartition(" ")[2] for line in printed.splitlines()] == ["adds", "names", "1..2"]
            assert ("not ok" in printed) == (f"not ok {1 if test == 'adds' else 2}" in printed)
