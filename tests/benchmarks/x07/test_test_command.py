"""The adapter to `x07 test`. With X07_BIN set, the tests that need no misbehaviour also run the real x07."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from plain_environment import environment_at
from proctor.benchmarks.x07.files import X07Eval
from proctor.benchmarks.x07.test_command import (
    X07Failure,
    X07Run,
    jobs_for,
    read_run,
    run_x07_test,
    x07_test_command,
)
from proctor.benchmarks.x07.toolchain import make_toolchain
from proctor.core.causes import CONSEQUENCES, Cause, Status
from proctor.core.environment import ExecResult
from proctor.core.verdict import TestStatus
from x07_world import PROGRAMS, STANDIN, write_module, write_repo

EVERY_X07 = pytest.mark.parametrize("x07", PROGRAMS, ids=lambda program: "stand-in" if program == STANDIN else "real")
TESTS = X07Eval(manifest="tests/tests.json", module_root=("modules",))


class World:
    """An instance's repository, an environment that has a copy of it, and a place for artifacts."""

    def __init__(self, tmp_path: Path, *tests: Any, **functions: Any) -> None:
        self.pristine = write_repo(tmp_path / "pristine", *tests, **functions)
        self.workspace = write_repo(tmp_path / "workspace", *tests, **functions)
        self.artifacts = tmp_path / "artifacts"
        self.scratch = tmp_path / "scratch"
        self.environment = environment_at(self.workspace)

    async def run(self, program: Path = STANDIN, tests: X07Eval = TESTS, **options: Any) -> X07Run | X07Failure:
        settings: dict[str, Any] = {"name": "baseline", "patched": False, "timeout": 60, **options}
        return await run_x07_test(
            self.environment,
            make_toolchain(program),
            tests,
            pristine=self.pristine,
            artifacts=self.artifacts,
            scratch=str(self.scratch),
            **settings,
        )

    def misbehave(self, how: str) -> None:
        (self.workspace / "x07-standin.json").write_text(json.dumps({"test": how}))


def changed(**changes: Any) -> X07Eval:
    return msgspec.structs.replace(TESTS, **changes)


@EVERY_X07
async def test_a_run_gives_statuses_and_numbers(x07: Path, tmp_path: Path) -> None:
    world = World(tmp_path, ("a", "good"), ("b", "bad", "fail"), ("c", "good", "skip"), ("d", "unknown"))
    run = await world.run(x07)
    assert isinstance(run, X07Run)
    assert run.exit_code == 11
    assert run.statuses == {
        "a": TestStatus.PASSED,
        "b": TestStatus.XFAILED,
        "c": TestStatus.SKIPPED,
        "d": TestStatus.ERROR,
    }
    summary = run.summary
    assert (summary.ok, summary.exit_code, summary.passed, summary.errors) == (False, 11, 1, 1)
    assert (summary.compile_failures, summary.run_failures, summary.compiled) == (1, 0, False)
    assert summary.report == "baseline.x07test.report.json"
    assert (world.artifacts / summary.report).is_file()
    assert (world.artifacts / "logs" / "baseline.stderr.txt").is_file()


@EVERY_X07
@pytest.mark.parametrize(
    ("function", "code", "compiled"), [("good", 0, True), ("bad", 10, True), ("endless", 12, True), ("many", 11, False)]
)
async def test_code_compiled_when_all_tests_came_to_run(
    x07: Path, tmp_path: Path, function: str, code: int, compiled: bool
) -> None:
    run = await World(tmp_path, ("a", function)).run(x07)
    assert isinstance(run, X07Run)
    assert (run.exit_code, run.summary.compiled) == (code, compiled)


@EVERY_X07
async def test_labelled_tests_are_all_run_even_behind_a_failing_one(x07: Path, tmp_path: Path) -> None:
    world = World(tmp_path, ("a", "bad"), ("b", "good"))
    stopped = await world.run(x07, changed(fail_to_pass=("a",), jobs=2))
    assert isinstance(stopped, X07Run)
    assert stopped.statuses == {"a": TestStatus.FAILED, "b": TestStatus.SKIPPED}
    complete = await world.run(x07, changed(fail_to_pass=("a",), pass_to_pass=("b",), jobs=2))
    assert isinstance(complete, X07Run)
    assert complete.statuses == {"a": TestStatus.FAILED, "b": TestStatus.PASSED}


def test_more_than_one_job_is_asked_for_only_where_x07_allows_it() -> None:
    assert jobs_for(changed(jobs=4), 8) == 1
    assert jobs_for(changed(jobs=4, no_fail_fast=True), 8) == 8
    assert jobs_for(changed(jobs=4, pass_to_pass=("p",)), 0) == 4
    assert jobs_for(changed(fail_to_pass=("p", "q")), 0) == 1


def test_the_command_is_the_one_that_x07s_own_harness_runs() -> None:
    places: dict[str, Any] = {
        "workdir": "/w",
        "stdlib_lock": "stdlib.lock",
        "report": "/t/report.json",
        "artifact_dir": "/t/artifacts",
    }
    plain = "x07 test --manifest /w/tests/tests.json --module-root /w/modules --stdlib-lock stdlib.lock --repeat 1"
    end = "--artifact-dir /t/artifacts --report-out /t/report.json --json false"
    assert " ".join(x07_test_command("x07", TESTS, **places)) == f"{plain} --jobs 1 {end}"
    everything = X07Eval(
        manifest="t.json",
        filter="f g",
        exact=True,
        repeat=3,
        no_fail_fast=True,
        no_run=True,
        verbose=True,
        keep_artifacts=True,
    )
    assert x07_test_command("x07", everything, jobs=5, **places)[2:] == [
        *("--manifest", "/w/t.json", "--stdlib-lock", "stdlib.lock", "--filter", "f g", "--repeat", "3", "--jobs", "5"),
        *("--exact", "--no-fail-fast", "--no-run", "--verbose", "--keep-artifacts", *end.split()),
    ]


@EVERY_X07
async def test_a_lock_file_of_the_instance_is_used_and_removing_it_is_the_patchs_doing(
    x07: Path, tmp_path: Path
) -> None:
    world = World(tmp_path, ("a", "good"))
    for repo in (world.pristine, world.workspace):
        (repo / "locks").mkdir()
        (repo / "locks" / "own.lock").write_text("{}")
    own = changed(stdlib_lock="locks/own.lock")
    assert isinstance(await world.run(x07, own), X07Run)
    (world.workspace / "locks" / "own.lock").unlink()
    failure = await world.run(x07, own, patched=True)
    assert isinstance(failure, X07Failure)
    assert (failure.cause, failure.exit_code) == (Cause.TESTS_VANISHED, 2)


@EVERY_X07
async def test_what_x07_keeps_comes_out_where_the_instance_asks_for_it(x07: Path, tmp_path: Path) -> None:
    world = World(tmp_path, ("a", "good"))
    await world.run(x07, changed(keep_artifacts=True), name="after_patch.det1")
    assert list((world.artifacts / "target" / "x07test" / "after_patch_det1").rglob("driver.x07.json"))
    await world.run(x07, TESTS, name="again")
    assert not (world.artifacts / "target" / "x07test" / "again").exists()


@EVERY_X07
async def test_where_x07_keeps_nothing_nothing_comes_out(x07: Path, tmp_path: Path) -> None:
    world = World(tmp_path, ("a", "good", "skip"))
    assert isinstance(await world.run(x07, changed(keep_artifacts=True)), X07Run)
    assert not (world.artifacts / "target" / "x07test" / "baseline").exists()


@EVERY_X07
async def test_every_run_compiles_anew(x07: Path, tmp_path: Path) -> None:
    world = World(tmp_path, ("a", "good"))
    await world.run(x07)
    await world.run(x07)
    assert len(list(world.scratch.glob("proctor-x07-*"))) == 2


# A run without results: before the patch the grader or the task is the reason, after it the patch.


@pytest.mark.parametrize(
    ("how", "before", "after", "said"),
    [
        ("die", Cause.GRADER_FAILED, Cause.TESTS_VANISHED, "E_BENCH_X07TEST_NO_REPORT"),
        ("garbage", Cause.GRADER_FAILED, Cause.TESTS_VANISHED, "cannot be read"),
        ("lie", Cause.GRADER_FAILED, Cause.TESTS_VANISHED, "contradict"),
        ("hang", Cause.GRADER_FAILED, Cause.TEST_TIMEOUT, "did not end within 0.5 s"),
    ],
)
async def test_the_cause_of_a_run_that_cannot_be_trusted_is_what_could_have_caused_it(
    tmp_path: Path, how: str, before: Cause, after: Cause, said: str
) -> None:
    world = World(tmp_path, ("a", "bad"))
    world.misbehave(how)
    for patched, cause in ((False, before), (True, after)):
        failure = await world.run(patched=patched, timeout=0.5 if how == "hang" else 60)
        assert isinstance(failure, X07Failure)
        assert failure.cause is cause
        assert said in failure.reason
        assert "\n" not in failure.reason
    assert CONSEQUENCES[after].status is Status.UNRESOLVED
    assert CONSEQUENCES[before].status is Status.ERROR


async def test_the_report_of_an_earlier_run_is_never_read(tmp_path: Path) -> None:
    world = World(tmp_path, ("a", "good"))
    world.misbehave("stale")
    assert isinstance(await world.run(), X07Run)
    failure = await world.run(patched=True)
    assert isinstance(failure, X07Failure)
    assert (failure.cause, failure.exit_code) == (Cause.TESTS_VANISHED, 101)
    assert "another run" in failure.reason
    assert "panicked" in failure.stderr


async def test_artifacts_of_an_earlier_run_are_gone_when_the_next_one_dies(tmp_path: Path) -> None:
    world = World(tmp_path, ("a", "good"))
    await world.run()
    assert list(world.artifacts.glob("*.json"))
    world.misbehave("die")
    await world.run()
    assert not list(world.artifacts.glob("*.json"))
    assert "panicked" in (world.artifacts / "logs" / "baseline.stderr.txt").read_text()


@EVERY_X07
async def test_a_manifest_without_a_runnable_test_is_a_bad_task_before_and_the_patchs_doing_after(
    x07: Path, tmp_path: Path
) -> None:
    world = World(tmp_path, ("a", "nowhere"))
    before = await world.run(x07)
    after = await world.run(x07, patched=True)
    assert isinstance(before, X07Failure)
    assert isinstance(after, X07Failure)
    assert (before.cause, after.cause) == (Cause.INVALID_TASK, Cause.TESTS_VANISHED)
    assert "ETEST_ENTRY_INVALID" in before.reason
    assert before.summary is not None
    assert (before.summary.exit_code, before.summary.errors, before.summary.compiled) == (12, 1, False)


@EVERY_X07
async def test_a_filter_that_selects_nothing_is_a_bad_task(x07: Path, tmp_path: Path) -> None:
    failure = await World(tmp_path, ("a", "good")).run(x07, changed(filter="nothing"))
    assert isinstance(failure, X07Failure)
    assert failure.cause is Cause.INVALID_TASK


async def test_the_first_4096_bytes_of_stderr_are_kept(tmp_path: Path) -> None:
    program = tmp_path / "x07"
    program.write_text("#!/bin/sh\nhead -c 9000 /dev/zero | tr '\\0' x >&2; exit 3\n")
    program.chmod(0o755)
    failure = await World(tmp_path, ("a", "good")).run(program)
    assert isinstance(failure, X07Failure)
    assert failure.stderr == "x" * 4096


async def test_a_program_that_is_not_in_the_environment_is_missing(tmp_path: Path) -> None:
    world = World(tmp_path, ("a", "good"))
    failure = await world.run(tmp_path / "nowhere" / "x07")
    assert isinstance(failure, X07Failure)
    assert failure.cause is Cause.MISSING_PROGRAM
    assert "docs/x07.md" in failure.reason


@pytest.mark.parametrize(
    "said",
    ["could not find stdlib lock file: stdlib.lock (pass --stdlib-lock <path>)", 'invoke cc: "cc": No such file'],
)
async def test_an_x07_without_its_files_or_a_compiler_is_missing_too(tmp_path: Path, said: str) -> None:
    program = tmp_path / "x07"
    program.write_text(f"#!/bin/sh\necho '{said}' >&2; exit 2\n")
    program.chmod(0o755)
    world = World(tmp_path, ("a", "good"))
    failure = await world.run(program)
    assert isinstance(failure, X07Failure)
    assert failure.cause is Cause.MISSING_PROGRAM
    assert said in failure.reason
    after = await world.run(program, patched=True)
    assert isinstance(after, X07Failure)
    assert after.cause is Cause.TESTS_VANISHED


# Forged and broken reports.


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"schema_version": "x07.bench.report@0.1.0"}, "not x07.x07test"),
        ({"invocation": {"argv": ["x07", "test"]}}, "another run"),
        ({"tests": [{"id": "a", "status": "pass"}, {"id": "a", "status": "pass"}]}, "twice"),
        ({"summary": {"passed": 2}}, "numbers"),
        ({"tests": [{"id": "a", "status": "fail"}], "summary": {"failed": 1}}, "contradict"),
        ({"summary": {"passed": 1, "compile_failures": 1}}, "contradict"),
        ({"tests": [], "summary": {}}, "contradict"),
        ({"summary": {"passed": "one"}}, "cannot be read"),
        ({"tests": None}, "cannot be read"),
    ],
)
def test_a_report_must_agree_with_itself_and_with_the_exit_code(changes: dict[str, Any], said: str) -> None:
    document = {
        "schema_version": "x07.x07test@0.4.0",
        "invocation": {"argv": ["x07", "--report-out", "/t/r.json"]},
        "summary": {"passed": 1},
        "tests": [{"id": "a", "status": "pass", "expect": "pass"}],
        **changes,
    }

    def read(exit_code: int) -> X07Run | X07Failure:
        done = ExecResult(exit_code=exit_code, stdout=b"", stderr=b"", seconds=1.0)
        data = json.dumps(document).encode()
        return read_run(data, done, report="/t/r.json", kept="k", no_run=False, patched=True)

    failure = read(0)
    assert isinstance(failure, X07Failure)
    assert said in failure.reason
    document.update(summary={"passed": 1}, tests=[{"id": "a", "status": "pass"}])
    document.update(schema_version="x07.x07test@0.4.0", invocation={"argv": ["/t/r.json"]})
    assert isinstance(read(0), X07Run)
    assert isinstance(read(10), X07Failure)
    assert isinstance(read(137), X07Failure)


@given(st.binary(max_size=200) | st.recursive(st.none() | st.integers() | st.text(), st.lists).map(json.dumps))
def test_no_bytes_make_the_reader_raise(data: bytes | str) -> None:
    done = ExecResult(exit_code=0, stdout=b"", stderr=b"\xff", seconds=1.0)
    raw = data.encode(errors="surrogatepass") if isinstance(data, str) else data
    assert isinstance(read_run(raw, done, report="r", kept="k", no_run=False, patched=True), X07Failure)


@EVERY_X07
async def test_a_patch_decides_the_outcome(x07: Path, tmp_path: Path) -> None:
    world = World(tmp_path, ("a", "it"), it=["std.test.fail", 1])
    before = await world.run(x07)
    write_module(world.workspace, it=["std.test.pass"])
    after = await world.run(x07, name="after_patch", patched=True)
    assert isinstance(before, X07Run)
    assert isinstance(after, X07Run)
    assert (before.exit_code, after.exit_code) == (10, 0)
