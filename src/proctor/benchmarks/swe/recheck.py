"""Whether a suspicious submission that passes also passes where nothing is read from what it prints.

The official rule reads what the test program prints, so a program under test may print it. Where the audit names the
means for that, the hidden tests are run once more by our own reporter (docs/grading.md), first on the oracle, which
proves that the reporter can run them, then on the submission.
"""

import shlex
from collections.abc import Sequence
from typing import Final

from proctor.benchmarks.swe.environment_steps import apply_in_environment, run_bash
from proctor.benchmarks.swe.eval_log import START_MARKER
from proctor.benchmarks.swe.evo_grader import eval_script
from proctor.benchmarks.swe.grading_job import SweGradingJob
from proctor.benchmarks.swe.patches import files_to_test, with_final_newline
from proctor.benchmarks.swe.rows import R, SweBenchRow, SweEvoRow, SweRow
from proctor.core.environment import Environment
from proctor.core.errors import LimitReached
from proctor.core.verdict import Finding, TestStatus
from proctor.grading import AuditCode, TestFormat, TestPlan, TestRun, pytest_config, run_tests

_PYTHON_FILE: Final = "/tmp/proctor-python"  # noqa: S108 - inside an environment of our own
_PYTEST_CONFIGS: Final = (
    "pytest.toml",
    ".pytest.toml",
    "pytest.ini",
    ".pytest.ini",
    "pyproject.toml",
    "tox.ini",
    "setup.cfg",
)
_PASSING_STATUSES: Final = frozenset({TestStatus.PASSED, TestStatus.XFAILED})
# What touches files alone has been restored; what is left are means to change results at run time.
_HARMLESS_CODES: Final = frozenset(
    code.value
    for code in (
        AuditCode.PROTECTED_PATH,
        AuditCode.TEST_DELETED,
        AuditCode.TEST_REMOVED,
        AuditCode.TEST_CONFIG,
        AuditCode.SYMLINK,
        AuditCode.GIT_METADATA,
    )
)


def is_suspicious(findings: Sequence[Finding], restored: Sequence[str]) -> bool:
    """Whether something that is still in place could have changed what the tests print."""
    return any(finding.code not in _HARMLESS_CODES and finding.path not in restored for finding in findings)


async def find_contradiction(job: SweGradingJob[R], patch: bytes) -> str | None:
    """What our reporter says against a submission that passes; None when nothing, or when it cannot run these tests."""
    official, targets = _pytest_targets(job.row)
    oracle = job.official_grader.oracle_patch(job.row)
    if not targets or oracle is None:
        return None
    control = await _run_with_reporter(job, with_final_newline(oracle), (), official, targets)
    if control is None or not control.complete:
        return None
    labels = [label for label in job.row.fail_to_pass if control.tests.get(label) in _PASSING_STATUSES]
    found = await _run_with_reporter(job, patch, job.protected, official, targets)
    if not labels or found is None:
        return None
    failing = [label for label in labels if found.tests.get(label) not in _PASSING_STATUSES]
    return f"our own reporter does not see {failing[0]} pass" if failing else None


def _pytest_targets(row: SweRow) -> tuple[str, tuple[str, ...]]:
    """The official script, and the files that it gives to pytest; none where another program runs them."""
    script = row.eval_script if isinstance(row, SweBenchRow) else eval_script(row) if isinstance(row, SweEvoRow) else ""
    lines = script.split("\n")
    marker = next((number for number, line in enumerate(lines) if START_MARKER in line), None)
    if marker is None or marker + 1 >= len(lines):
        return script, ()
    words = shlex.split(lines[marker + 1], comments=False)
    if "pytest" not in words:
        return script, ()
    files = set(files_to_test(row.test_patch))
    return "\n".join(lines[:marker]), tuple(word for word in words if word in files)


async def _run_with_reporter(
    job: SweGradingJob[R], patch: bytes, protected: tuple[str, ...], setup_script: str, targets: tuple[str, ...]
) -> TestRun | None:
    async with job.start_prepared() as environment:
        try:
            config = pytest_config((await _original_configs(environment)).get)
            applied = await apply_in_environment(
                environment,
                patch,
                ("git apply --verbose", "patch --batch --forward --fuzz=5 -p1 -i"),
                protected=protected,
            )
            if applied.command_index is None:
                return None
            if isinstance(job.row, SweEvoRow):
                tests = with_final_newline(job.row.test_patch.encode("utf-8", "surrogateescape"))
                await apply_in_environment(environment, tests, ("git apply --verbose",))
            script = f"{setup_script}\ncommand -v python > {_PYTHON_FILE}\n"
            await run_bash(environment, job.setup.adapt_script(script), seconds=job.timeout)
            python = (await environment.exec(["cat", _PYTHON_FILE])).stdout.decode(errors="replace").strip()
            plan = TestPlan(
                format=TestFormat.PYTEST,
                targets=targets,
                python=python or "python3",
                config=config,
                autoload=True,
            )
            return await run_tests(environment, plan, timeout=job.timeout)
        except LimitReached:
            return None


async def _original_configs(environment: Environment) -> dict[str, bytes]:
    """The files that may configure pytest, as they are before anything is applied."""
    found = {}
    for name in _PYTEST_CONFIGS:
        read = await environment.exec(["git", "show", f"HEAD:{name}"])
        if read.exit_code == 0:
            found[name] = read.stdout
    return found
