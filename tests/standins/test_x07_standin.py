"""The stand-in behaves as x07 does. With X07_BIN set, every test here also runs the real one."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from x07_world import FUNCTIONS, PROGRAMS, STANDIN, module, write_repo

EVERY_X07 = pytest.mark.parametrize("x07", PROGRAMS, ids=lambda program: "stand-in" if program == STANDIN else "real")


def run(program: Path, *arguments: str, cwd: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {"PATH": os.defpath, "HOME": str(cwd), "X07_NATIVE_CACHE_DIR": str(cwd / "cache"), **variables}
    return subprocess.run(
        [program, *arguments], cwd=cwd, env=environment, capture_output=True, text=True, timeout=60, check=False
    )


def run_tests(program: Path, repo: Path, *flags: str) -> tuple[int, dict[str, Any] | None, str]:
    """Exit code, report and stderr of `x07 test`."""
    report = repo / "out" / "report.json"
    lock = [] if "--stdlib-lock" in flags else ["--stdlib-lock", "stdlib.lock"]
    done = run(
        program,
        "test",
        *("--manifest", str(repo / "tests" / "tests.json"), "--module-root", str(repo / "modules")),
        *lock,
        *("--report-out", str(report), "--json", "false"),
        *flags,
        cwd=repo,
    )
    return done.returncode, json.loads(report.read_text()) if report.exists() else None, done.stderr


def statuses(report: dict[str, Any] | None) -> dict[str, str]:
    assert report is not None
    return {test["id"]: test["status"] for test in report["tests"]}


@EVERY_X07
def test_it_says_its_version(x07: Path, tmp_path: Path) -> None:
    assert run(x07, "--version", cwd=tmp_path).stdout.startswith("x07 0.")


@EVERY_X07
@pytest.mark.parametrize(
    ("tests", "flags", "code", "wanted"),
    [
        ([("a", "good")], [], 0, {"a": "pass"}),
        ([("a", "bad")], [], 10, {"a": "fail"}),
        ([("a", "unknown")], [], 11, {"a": "error"}),
        ([("a", "many")], [], 11, {"a": "error"}),
        ([("a", "endless")], [], 12, {"a": "error"}),
        ([("b", "good"), ("a", "bad")], [], 10, {"a": "fail", "b": "skip"}),
        ([("b", "good"), ("a", "bad")], ["--no-fail-fast"], 10, {"a": "fail", "b": "pass"}),
        ([("b", "good"), ("a", "bad")], ["--no-fail-fast", "--jobs", "2"], 10, {"a": "fail", "b": "pass"}),
        ([("a", "bad", "fail"), ("b", "bad", "skip")], [], 0, {"a": "xfail_fail", "b": "skip"}),
        ([("a", "good", "fail")], [], 10, {"a": "xfail_pass"}),
        ([("a", "bad"), ("b", "good")], ["--no-run"], 0, {"a": "skip", "b": "skip"}),
        ([("a", "many"), ("b", "good")], ["--no-run"], 11, {"a": "error", "b": "skip"}),
        ([("a", "good"), ("ab", "bad")], ["--filter", "a", "--exact"], 0, {"a": "pass"}),
        ([("a", "good"), ("ab", "bad")], ["--filter", "ab"], 10, {"ab": "fail"}),
        ([("a", "good")], ["--repeat", "3", "--verbose"], 0, {"a": "pass"}),
        ([("a", "nowhere")], [], 12, {}),
        ([("a", "good"), ("a", "bad")], [], 12, {}),
        ([("a", "good", "perhaps")], [], 12, {}),
        ([], [], 12, {}),
    ],
)
def test_tests_end_as_the_program_says(  # noqa: PLR0917 - the table has four columns
    x07: Path, tmp_path: Path, tests: list[Any], flags: list[str], code: int, wanted: dict[str, str]
) -> None:
    done, report, _ = run_tests(x07, write_repo(tmp_path, *tests), *flags)
    assert (done, statuses(report)) == (code, wanted)
    assert report is not None
    counted = {"compile_failures": int(code == 11), "run_failures": int(wanted == {"a": "error"} and code == 12)}
    assert counted.items() <= report["summary"].items()
    assert report["schema_version"] == "x07.x07test@0.4.0"
    assert str(tmp_path / "out" / "report.json") in report["invocation"]["argv"]


@EVERY_X07
@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--jobs", "2"], "--jobs >1 requires --no-fail-fast"),
        (["--jobs", "0"], "--jobs >1 requires --no-fail-fast"),
        (["--filter", "nothing"], "0 tests selected"),
        (["--stdlib-lock", "/nowhere/stdlib.lock"], "could not find stdlib lock file"),
        (["--frobnicate"], "--frobnicate"),
    ],
)
def test_wrong_usage_is_exit_code_2_and_no_report(x07: Path, tmp_path: Path, flags: list[str], message: str) -> None:
    code, report, stderr = run_tests(x07, write_repo(tmp_path, ("a", "good")), *flags)
    assert (code, report) == (2, None)
    assert message in stderr


@EVERY_X07
@pytest.mark.parametrize("text", ["{", "[]", '{"x": 1}'])
def test_a_module_or_a_manifest_that_is_none_ends_in_a_report_without_tests(
    x07: Path, tmp_path: Path, text: str
) -> None:
    repo = write_repo(tmp_path / "a", ("a", "good"))
    (repo / "modules" / "m.x07.json").write_text(text)
    code, report, stderr = run_tests(x07, repo)
    assert (code, statuses(report)) == (12, {})
    assert "ETEST_ENTRY_INVALID" in stderr
    repo = write_repo(tmp_path / "b", ("a", "good"))
    (repo / "tests" / "tests.json").write_text(text)
    code, report, stderr = run_tests(x07, repo)
    assert (code, statuses(report)) == (12, {})
    assert "ETEST_MANIFEST_JSON" in stderr


@EVERY_X07
@pytest.mark.parametrize("name", ["many", "loops"])
def test_the_linter_offers_quickfixes_and_fix_applies_them(x07: Path, tmp_path: Path, name: str) -> None:
    repo = write_repo(tmp_path, ("a", "it"), it=FUNCTIONS[name])
    file = str(repo / "modules" / "m.x07.json")
    assert run_tests(x07, repo)[0] == 11
    linted = run(x07, "lint", "--input", file, "--world", "solve-pure", cwd=tmp_path)
    report = json.loads(linted.stdout)
    assert (linted.returncode, report["ok"], report["schema_version"]) == (1, False, "x07.x07diag@0.1.0")
    (quickfix,) = [diagnostic["quickfix"] for diagnostic in report["diagnostics"]]
    assert quickfix["kind"] == "json_patch"
    shown = run(x07, "fix", "--input", file, cwd=tmp_path)
    (tmp_path / "ops.json").write_text(json.dumps(quickfix["patch"]))
    assert run(x07, "ast", "apply-patch", "--in", file, "--patch", "ops.json", cwd=tmp_path).returncode == 0
    assert Path(file).read_text() == shown.stdout
    assert json.loads(run(x07, "lint", "--input", file, cwd=tmp_path).stdout)["ok"]
    assert run_tests(x07, repo)[0] == 0


@EVERY_X07
def test_a_problem_without_a_quickfix_is_reported(x07: Path, tmp_path: Path) -> None:
    repo = write_repo(tmp_path, ("a", "it"), it=["begin", ["let", "x"], ["std.test.pass"]])
    file = str(repo / "modules" / "m.x07.json")
    assert run(x07, "fix", "--input", file, "--write", cwd=tmp_path).returncode == 1
    assert run_tests(x07, repo)[0] == 11


@EVERY_X07
def test_fmt_writes_the_canonical_form(x07: Path, tmp_path: Path) -> None:
    file = tmp_path / "m.x07.json"
    document = {**module("m", {"z": 1, "a": 2}), "imports": ["std.test", "std.codec", "std.test"]}
    file.write_text(json.dumps(document, indent=7))
    assert run(x07, "fmt", "--check", "--input", str(file), cwd=tmp_path).returncode == 1
    assert run(x07, "fmt", "--write", "--input", str(file), cwd=tmp_path).returncode == 0
    canonical = json.loads(file.read_text())
    assert file.read_text() == json.dumps(canonical, sort_keys=True, separators=(",", ":")) + "\n"
    assert canonical["imports"] == ["std.codec", "std.test"]
    assert [decl.get("name") for decl in canonical["decls"]] == [None, "m.a", "m.z"]
    assert run(x07, "fmt", "--write", "--pretty", "--input", str(file), cwd=tmp_path).returncode == 0
    assert file.read_text() == json.dumps(canonical, sort_keys=True, indent=2) + "\n"
    file.write_text("{")
    assert run(x07, "fmt", "--write", "--input", str(file), cwd=tmp_path).returncode == 2


@pytest.mark.parametrize(
    ("wrong", "code", "wanted"),
    [("die", 101, None), ("garbage", 0, "{ not JSON"), ("lie", 10, {"a": "pass"})],
)
def test_misbehaviour_can_be_asked_for(tmp_path: Path, wrong: str, code: int, wanted: object) -> None:
    repo = write_repo(tmp_path, ("a", "good"))
    (repo / "x07-standin.json").write_text(json.dumps({"test": wrong}))
    if wrong == "garbage":
        with pytest.raises(json.JSONDecodeError):
            run_tests(STANDIN, repo)
        assert (repo / "out" / "report.json").read_text() == wanted
        return
    done, report, _ = run_tests(STANDIN, repo)
    assert (done, report and statuses(report)) == (code, wanted)


def test_a_flaky_test_says_the_opposite_every_second_time(tmp_path: Path) -> None:
    repo = write_repo(tmp_path, ("a", "good"))
    (repo / "x07-standin.json").write_text('{"test": "flaky"}')
    assert [run_tests(STANDIN, repo)[0] for _ in range(3)] == [0, 10, 0]


def test_a_stale_report_is_the_one_of_the_run_before(tmp_path: Path) -> None:
    repo = write_repo(tmp_path, ("a", "good"))
    (repo / "x07-standin.json").write_text('{"test": "stale"}')
    assert run_tests(STANDIN, repo)[0] == 0
    (repo / "out" / "report.json").unlink()
    code, report, _ = run_tests(STANDIN, repo, "--verbose")
    assert (code, statuses(report)) == (101, {"a": "pass"})
    assert report is not None
    assert "--verbose" not in report["invocation"]["argv"]


def test_it_can_hang(tmp_path: Path) -> None:
    environment = {"PATH": os.defpath, "X07_STANDIN": '{"test": "hang"}'}
    with pytest.raises(subprocess.TimeoutExpired):
        subprocess.run([STANDIN, "test"], cwd=tmp_path, env=environment, timeout=1, check=False)
