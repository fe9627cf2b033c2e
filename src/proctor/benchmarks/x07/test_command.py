"""Runs an instance's tests with `x07 test`, and reads its report.

A run ends as an `X07Run`, or as an `X07Failure` when it says nothing about the tests. docs/x07.md says what x07 needs
in an environment.
"""

import contextlib
import posixpath
import secrets
import shutil
from pathlib import Path
from typing import Final

import msgspec

from proctor.benchmarks.x07.files import X07Eval
from proctor.benchmarks.x07.toolchain import LOCK_FILE, Toolchain
from proctor.core.causes import Cause
from proctor.core.environment import Environment, ExecResult
from proctor.core.errors import InvalidData, LimitReached
from proctor.core.evaluation import TestSummary
from proctor.core.files import write_atomic
from proctor.core.record import Record, from_json
from proctor.core.verdict import TestStatus

REPORT_SUFFIX: Final = ".x07test.report.json"
MAX_STDERR_BYTES: Final = 4096
REPORT_BYTES: Final = 64_000_000

_STATUSES: Final = {
    "pass": TestStatus.PASSED,
    "fail": TestStatus.FAILED,
    "skip": TestStatus.SKIPPED,
    "error": TestStatus.ERROR,
    "xfail_fail": TestStatus.XFAILED,
    "xfail_pass": TestStatus.XPASSED,
}
_AS_EXPECTED: Final = frozenset({("pass", "pass"), ("fail", "xfail_fail"), ("skip", "skip")})
_PASSED, _FAILED, _COMPILE_FAILED, _RUN_FAILED = 0, 10, 11, 12
_EXIT_CODES: Final = frozenset({_PASSED, _FAILED, _COMPILE_FAILED, _RUN_FAILED})
_CANNOT_START: Final = frozenset({126, 127})


class X07Run(Record):
    """One run of `x07 test` that came to its end; `statuses` is how each test ended."""

    exit_code: int
    statuses: dict[str, TestStatus]
    summary: TestSummary


class X07Failure(Record):
    """A run that says nothing about the tests, and what caused that.

    Attributes:
        reason: one sentence.
        stderr: the first 4096 bytes of what x07 printed there.
        summary: the numbers, where x07 still gave some.
    """

    cause: Cause
    reason: str
    exit_code: int | None = None
    stderr: str = ""
    summary: TestSummary | None = None


class X07Counts(Record):
    """The numbers of a test run, as x07's reports have them."""

    passed: int = 0
    failed: int = 0
    skipped: int = 0
    errors: int = 0
    compile_failures: int = 0
    run_failures: int = 0

    def compiled(self, exit_code: int | None) -> bool:
        """Whether the code compiled: x07 test ended by itself, and all its tests were run."""
        broke_running = exit_code == _RUN_FAILED and self.run_failures > 0  # without one, no test was found
        return self.compile_failures == 0 and (exit_code in {_PASSED, _FAILED} or broke_running)


class _X07TestCase(Record):
    id: str
    status: str
    expect: str = "pass"


class _X07TestInvocation(Record):
    argv: tuple[str, ...]


class X07TestReport(Record):
    schema_version: str
    summary: X07Counts
    tests: tuple[_X07TestCase, ...]
    invocation: _X07TestInvocation


def runs_all_tests(tests: X07Eval) -> bool:
    """Whether the run must continue after a failure.

    x07 stops at the first by default and calls the rest skipped, which would hide how labelled tests fare.
    """
    return tests.no_fail_fast or bool(tests.pass_to_pass) or len(tests.fail_to_pass) > 1


def jobs_for(tests: X07Eval, jobs: int) -> int:
    """How many tests run at once: x07 refuses more than one unless the run continues after a failure."""
    return max(1, jobs, tests.jobs) if runs_all_tests(tests) else 1


def x07_test_command(
    program: str, tests: X07Eval, *, workdir: str, stdlib_lock: str, report: str, artifact_dir: str, jobs: int = 1
) -> list[str]:
    """The command that runs an instance's tests."""
    argv = [program, "test", "--manifest", posixpath.join(workdir, tests.manifest)]
    for root in tests.module_root:
        argv += ["--module-root", posixpath.join(workdir, root)]
    argv += ["--stdlib-lock", stdlib_lock]
    if tests.filter is not None:
        argv += ["--filter", tests.filter]
    flags = {
        "--exact": tests.exact,
        "--no-fail-fast": runs_all_tests(tests),
        "--no-run": tests.no_run,
        "--verbose": tests.verbose,
        "--keep-artifacts": tests.keep_artifacts,
    }
    argv += ["--repeat", str(tests.repeat), "--jobs", str(jobs_for(tests, jobs))]
    argv += [flag for flag, wanted in flags.items() if wanted]
    return [*argv, "--artifact-dir", artifact_dir, "--report-out", report, "--json", "false"]


async def run_x07_test(
    environment: Environment,
    x07: Toolchain,
    tests: X07Eval,
    *,
    pristine: Path,
    name: str,
    artifacts: Path,
    patched: bool,
    timeout: float,
    jobs: int = 1,
    scratch: str = "/tmp",  # noqa: S108 - in the environment, where it is private
) -> X07Run | X07Failure:
    """Run an instance's tests in an environment.

    `<name>.x07test.report.json`, `logs/<name>.stderr.txt` and, where the instance asks for it, what x07 itself keeps
    (below `eval.artifact_dir`) are kept in `artifacts`; what an earlier run left there is removed first.

    Args:
        environment: has the tree that is tested.
        x07: the toolchain, which is mounted there.
        tests: what to run.
        pristine: the instance's repository on the host, as it was before any patch.
        name: of the artifacts.
        artifacts: a folder on the host.
        patched: the submission is in place, so that it is the reason if the tests do not end.
        timeout: of the run, in seconds.
        jobs: how many tests run at once.
        scratch: a private folder in the environment.
    """
    kept = artifacts / f"{name}{REPORT_SUFFIX}"
    log = artifacts / "logs" / f"{name}.stderr.txt"
    for file in (kept, log):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.unlink(missing_ok=True)
    # Nothing that runs there can know this path beforehand, nor find there what an earlier run left.
    fresh = posixpath.join(scratch, f"proctor-x07-{secrets.token_hex(16)}")
    report = posixpath.join(fresh, "report.json")
    made = posixpath.join(fresh, "artifacts")
    own_lock = (pristine / tests.stdlib_lock).is_file()
    command = x07_test_command(
        x07.program,
        tests,
        workdir=environment.workdir,
        stdlib_lock=posixpath.join(environment.workdir, tests.stdlib_lock) if own_lock else LOCK_FILE,
        report=report,
        artifact_dir=made,
        jobs=jobs,
    )
    done = await environment.exec(command, variables=_variables(fresh), cwd=environment.workdir, timeout=timeout)
    write_atomic(log, done.stderr)
    if done.timed_out:
        return _no_report(done, patched=patched, seconds=timeout)
    read = await environment.exec(["cat", report], timeout=timeout, output_bytes=REPORT_BYTES)
    if read.exit_code != 0 or read.timed_out:
        return _no_report(done, patched=patched, seconds=timeout)
    write_atomic(kept, read.stdout)
    if tests.keep_artifacts:
        target = artifacts / tests.artifact_dir / name.replace(".", "_")
        shutil.rmtree(target, ignore_errors=True)
        target.parent.mkdir(parents=True, exist_ok=True)
        # They are for people to look at: none of them, or too much of it, decides nothing.
        with contextlib.suppress(FileNotFoundError, LimitReached):
            await environment.get(made, target)
    if read.truncated:
        return _untrusted(done, f"its report has more than {REPORT_BYTES:,} bytes", patched=patched)
    return read_run(read.stdout, done, report=report, kept=kept.name, no_run=tests.no_run, patched=patched)


def read_run(
    data: bytes, done: ExecResult, *, report: str, kept: str, no_run: bool, patched: bool
) -> X07Run | X07Failure:
    """What one run says: its report, which must be its own, and agree with itself and with the exit code."""
    try:
        document = from_json(data, X07TestReport)
    except InvalidData as error:
        return _untrusted(done, f"its report cannot be read ({error.what})", patched=patched)
    wrong = _contradiction(document, done.exit_code, report=report, no_run=no_run)
    if wrong:
        return _untrusted(done, wrong, patched=patched)
    summary = TestSummary(
        ok=done.exit_code == 0,
        exit_code=done.exit_code,
        seconds=done.seconds,
        report=kept,
        compiled=document.summary.compiled(done.exit_code),
        **msgspec.structs.asdict(document.summary),
    )
    if not document.tests:
        return X07Failure(
            cause=Cause.TESTS_VANISHED if patched else Cause.INVALID_TASK,
            reason=f"x07 test ran no test: {_first_line(done.stderr)}",
            exit_code=done.exit_code,
            stderr=_head(done.stderr),
            summary=summary,
        )
    return X07Run(
        exit_code=done.exit_code,
        statuses={test.id: _STATUSES.get(test.status, TestStatus.ERROR) for test in document.tests},
        summary=summary,
    )


def _variables(scratch: str) -> dict[str, str]:
    """x07 keeps compiled programs for the next run: one made while a patch was in place must not serve another run.

    Its own choice of folder can also be one that is there and read-only, in which case it gives up.
    """
    return {"X07_NATIVE_CACHE_DIR": posixpath.join(scratch, "native-cache"), "X07_OFFLINE": "1"}


def _contradiction(document: X07TestReport, exit_code: int, *, report: str, no_run: bool) -> str | None:
    counts, tests = document.summary, document.tests
    if not document.schema_version.startswith("x07.x07test@"):
        return f"its report says {document.schema_version!r}, not x07.x07test"
    if report not in document.invocation.argv:
        return "its report is of another run"
    if len({test.id for test in tests}) < len(tests):
        return "its report names a test twice"
    reported = {"pass": counts.passed, "fail": counts.failed, "skip": counts.skipped, "error": counts.errors}
    if tests and any(sum(test.status == status for test in tests) != number for status, number in reported.items()):
        return "the numbers in its report are not those of its tests"
    broken = counts.compile_failures > 0 or (not no_run and counts.run_failures > 0) or not tests
    off = not no_run and any((test.expect, test.status) not in _AS_EXPECTED for test in tests)
    if exit_code not in _EXIT_CODES or (exit_code == 0) is (broken or off):
        return f"its report and its exit code {exit_code} contradict each other"
    return None


def _no_report(done: ExecResult, *, patched: bool, seconds: float) -> X07Failure:
    error = _first_line(done.stderr)
    if done.timed_out:
        cause = Cause.TEST_TIMEOUT if patched else Cause.GRADER_FAILED
        reason = f"x07 test did not end within {seconds:g} s"
    else:
        cause = Cause.TESTS_VANISHED if patched else _no_report_cause(done)
        reason = f"E_BENCH_X07TEST_NO_REPORT: x07 test wrote no report (exit code {done.exit_code}): {error}"
        if cause is Cause.MISSING_PROGRAM:
            reason = f"x07 does not work in the environment: {error}; {_REMEDY}"
    return X07Failure(cause=cause, reason=reason, exit_code=done.exit_code, stderr=_head(done.stderr))


_REMEDY: Final = "it needs its whole toolchain folder (with stdlib.lock) and a C compiler there, as docs/x07.md says"


def _no_report_cause(done: ExecResult) -> Cause:
    """Whose fault it is that a run before any patch wrote no report."""
    text = done.stderr.decode(errors="replace")
    if done.exit_code in _CANNOT_START or "could not find stdlib lock file" in text or "invoke cc:" in text:
        return Cause.MISSING_PROGRAM
    return Cause.INVALID_TASK if "0 tests selected" in text else Cause.GRADER_FAILED


def _untrusted(done: ExecResult, why: str, *, patched: bool) -> X07Failure:
    return X07Failure(
        cause=Cause.TESTS_VANISHED if patched else Cause.GRADER_FAILED,
        reason=f"what x07 test reported (exit code {done.exit_code}) cannot be trusted: {why}",
        exit_code=done.exit_code,
        stderr=_head(done.stderr),
    )


def _head(stderr: bytes) -> str:
    return stderr[:MAX_STDERR_BYTES].decode(errors="replace")


def _first_line(stderr: bytes) -> str:
    return next(iter(_head(stderr).strip().splitlines()), "it printed nothing")
