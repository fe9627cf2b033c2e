"""FeatureBench, which ACE-Bench has become, graded as its own evaluation does.

https://github.com/LiberCoders/FeatureBench
"""

import re
import shlex
from collections.abc import Mapping
from typing import Any, Final

from proctor.benchmarks.swe.environment_steps import (
    SweTestRun,
    apply_in_environment,
    put_paper,
    run_bash,
    run_required,
)
from proctor.benchmarks.swe.instance_setup import InstanceSetup, StartState
from proctor.benchmarks.swe.official_rules import LabelResults, OfficialRuling, pass_rate
from proctor.benchmarks.swe.parsers import Statuses
from proctor.benchmarks.swe.parsers.pytest_lines import pytest_summary
from proctor.benchmarks.swe.patches import with_final_newline
from proctor.benchmarks.swe.reverse_diff import reversed_diff
from proctor.benchmarks.swe.rows import FeatureBenchRow
from proctor.core.environment import Environment

WORKDIR: Final = "/testbed"
ORIGINAL_REPO: Final = "/root/my_repo"
TIMEOUT_SECONDS: Final = 1800.0
_APPLY_COMMANDS: Final = ("git apply --whitespace=fix --verbose",)
_ACTIVATE: Final = """\
if [ -f /opt/miniconda3/bin/activate ]; then source /opt/miniconda3/bin/activate; conda activate testbed; fi
"""
_EMPTY_SCRIPT: Final = f"find {WORKDIR} -mindepth 1 -delete\n"
_COMMIT_SCRIPT: Final = """\
rm -rf .git
git init --quiet
git config --global --add safe.directory '*'
git add --all --force .
git -c user.name=Proctor -c user.email=proctor@localhost commit --quiet --allow-empty --message start
"""
_README_SCRIPT: Final = "echo 'Put your package here.' > README.md\n"
_VERBOSE: Final = re.compile(r"^(\S+::.+?) (PASSED|FAILED|ERROR|SKIPPED|XFAIL)\b", re.MULTILINE)


class FeatureBenchGrader:
    """The official procedure for one instance."""

    grader_version = "featurebench 445dcba"
    timeout_seconds = TIMEOUT_SECONDS
    grades_empty = False
    score_name: str | None = "pass_rate"

    def start_state(self, row: FeatureBenchRow) -> StartState:
        """Level 1: the project without the feature and its tests, as the only commit. Level 2: next to nothing."""
        script = _layout_script(row) + f"rm -rf {ORIGINAL_REPO}\n"
        return StartState(workdir=WORKDIR, script=script, files={"mask.diff": _mask(row)}, keeps_history=False)

    def instruction(self, row: FeatureBenchRow) -> str:
        """The published prompt, which says all."""
        return row.problem_statement

    def oracle_patch(self, row: FeatureBenchRow) -> bytes | None:
        """Level 1: what takes the masking back, its tests aside. Level 2 has none."""
        if row.level != 1:
            return None
        made = reversed_diff(row.patch, excluding=frozenset(row.fail_to_pass))
        return made.encode("utf-8", "surrogateescape") if made else None

    async def run_tests(
        self,
        environment: Environment,
        row: FeatureBenchRow,
        setup: InstanceSetup,
        patch: bytes,
        *,
        protected: tuple[str, ...],
        seconds: float,
        paper: Mapping[str, bytes] | None = None,
    ) -> SweTestRun:
        """Lay out the masked project, apply, add the hidden tests, run each test file; exit codes decide."""
        files = "/tmp/proctor-files"  # noqa: S108 - inside an environment of our own
        await environment.put(_mask(row), f"{files}/mask.diff")
        await environment.put(
            with_final_newline(row.test_patch.encode("utf-8", "surrogateescape")), f"{files}/tests.diff"
        )
        head = f"FILES={files}\ncd {environment.workdir}\n"
        await run_required(environment, head + _layout_script(row), "laying out the masked project")
        applied = await apply_in_environment(
            environment, with_final_newline(patch), _APPLY_COMMANDS, protected=protected
        )
        if applied.command_index is None:
            return SweTestRun(applied=False, error=applied.output, scores={"pass_rate": 0.0})
        lay_paper = await put_paper(environment, paper)
        script = head + _ACTIVATE + _tests_script(row) + lay_paper
        added = await run_bash(environment, setup.adapt_script(script), seconds=seconds)
        if added.exit_code:
            # Level 2 installs the submission here, so this may be the submission's doing.
            end = added.stdout.decode(errors="replace")[-300:]
            return SweTestRun(
                applied=True,
                parse_error=f"the tests could not be added: {end}",
                log=added.stdout,
                scores={"pass_rate": 0.0},
            ).with_patch(applied)
        return (await _run_files(environment, row, setup, seconds)).with_patch(applied)


async def _run_files(
    environment: Environment, row: FeatureBenchRow, setup: InstanceSetup, seconds: float
) -> SweTestRun:
    wanted = [*row.fail_to_pass, *(row.pass_to_pass if row.level == 1 else ())]
    limit = min(float(row.settings.get("timeout_run") or seconds), seconds)
    results: dict[str, bool] = {}
    statuses: Statuses = {}
    log, took, timed_out, code = b"", 0.0, False, 0
    for file in wanted:
        done = await run_bash(environment, setup.adapt_script(_command(row, environment.workdir, file)), seconds=limit)
        log += b"$ %s\n" % file.encode() + done.stdout + b"\n"
        took += done.seconds
        timed_out = timed_out or done.timed_out
        results[file] = done.exit_code == 0 and not done.timed_out
        code = code or done.exit_code
        if file in row.fail_to_pass:
            statuses |= _statuses(row.repo, done.stdout.decode(errors="replace"))
    rate = pass_rate(statuses)
    ruling = OfficialRuling(
        resolved=all(results.values()),
        fail_to_pass=_label_results(results, row.fail_to_pass),
        pass_to_pass=_label_results(results, wanted[len(row.fail_to_pass) :]),
    )
    return SweTestRun(
        applied=True,
        timed_out=timed_out,
        exit_code=code,
        statuses=statuses | {file: "PASSED" if passed else "FAILED" for file, passed in results.items()},
        ruling=ruling,
        scores={"pass_rate": rate},
        seconds=round(took, 3),
        log=log,
    )


def _label_results(results: dict[str, bool], files: Any) -> LabelResults:
    return LabelResults(
        success=tuple(file for file in files if results[file]),
        failure=tuple(file for file in files if not results[file]),
    )


def _mask(row: FeatureBenchRow) -> bytes:
    return with_final_newline(row.patch.encode("utf-8", "surrogateescape"))


def _layout_script(row: FeatureBenchRow) -> str:
    if row.level != 1:
        return _EMPTY_SCRIPT + _README_SCRIPT + _COMMIT_SCRIPT
    hidden = f"rm -rf -- {shlex.join(row.fail_to_pass)}\n" if row.fail_to_pass else ""
    return (
        f"if [ -d {ORIGINAL_REPO} ]; then {_EMPTY_SCRIPT.strip()}; cp -a {ORIGINAL_REPO}/. {WORKDIR}/; fi\n"
        "git config --global --add safe.directory '*'\n"
        "if [ -s $FILES/mask.diff ]; then git apply --whitespace=nowarn $FILES/mask.diff; fi\n"
        + hidden
        + _COMMIT_SCRIPT
    )


def _tests_script(row: FeatureBenchRow) -> str:
    if row.level == 1:
        return (
            f"set -e\nrm -rf -- {shlex.join(row.fail_to_pass)}\n"
            "git apply --reverse --whitespace=nowarn $FILES/tests.diff\n"
        )
    return (
        f"set -e\npip install .\ncp -a {ORIGINAL_REPO}/. {WORKDIR}/\ngit apply --whitespace=nowarn $FILES/tests.diff\n"
    )


def _command(row: FeatureBenchRow, workdir: str, file: str) -> str:
    one = row.settings.get("timeout_one")
    limit = f" --timeout={int(one)}" if one else ""
    command = str(row.settings.get("test_cmd") or "pytest -rA --tb=short --color=no")
    return f"{_ACTIVATE}cd {workdir}\n{command}{limit} {shlex.quote(file)}\n"


def _statuses(repo: str, log: str) -> Statuses:
    """The short summary; meson has failures of sub-tests too, and pydantic's lines name the test first."""
    if repo == "pydantic/pydantic":
        return dict(_VERBOSE.findall(log))
    if repo == "mesonbuild/meson":
        log = re.sub(r"(?m)^SUBFAILED", "FAILED", log)
    return pytest_summary(log)
