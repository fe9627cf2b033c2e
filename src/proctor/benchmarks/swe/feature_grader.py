"""FeatureBench, which ACE-Bench has become, graded as its own evaluation does.

https://github.com/LiberCoders/FeatureBench
"""

import shlex
from typing import Any, Final

from proctor.benchmarks.swe.environment_steps import (
    SweTestRun,
    apply_in_environment,
    put_variant,
    run_bash,
    run_required,
)
from proctor.benchmarks.swe.feature_settings import (
    bashrc_script,
    container_variables,
    gpus,
    pytest_command,
    run_seconds,
)
from proctor.benchmarks.swe.instance_setup import InstanceSetup, StartState
from proctor.benchmarks.swe.official_grader import OfficialGrader, SweSubmission
from proctor.benchmarks.swe.official_rules import LabelResults, OfficialRuling, pass_rate
from proctor.benchmarks.swe.parsers import Statuses, find_feature_parser
from proctor.benchmarks.swe.patches import with_final_newline
from proctor.benchmarks.swe.reverse_diff import reversed_diff
from proctor.benchmarks.swe.rows import FeatureBenchRow
from proctor.core.environment import Environment

WORKDIR: Final = "/testbed"
ORIGINAL_REPO: Final = "/root/my_repo"
_APPLY: Final = "git apply --whitespace=fix"
_APPLY_COMMANDS: Final = (f"{_APPLY} --verbose",)
_ACTIVATE: Final = """\
if [ -f ~/.bashrc ]; then source ~/.bashrc; fi
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
# Word for word: predictions from elsewhere may change this file.
_README_SCRIPT: Final = "echo 'put all codes in this folder' > README.md\n"


class FeatureBenchGrader(OfficialGrader[FeatureBenchRow]):
    """The official procedure for one instance."""

    grader_version = "featurebench 445dcba"
    grades_empty = False
    score_name = "pass_rate"

    def timeout_seconds(self, row: FeatureBenchRow) -> float:
        """How long the tests of each file may run."""
        return run_seconds(row)

    def start_state(self, row: FeatureBenchRow) -> StartState:
        """Level 1: the project without the feature and its tests, as the only commit. Level 2: next to nothing."""
        return StartState(
            workdir=WORKDIR,
            script=_layout_script(row) + f"rm -rf {ORIGINAL_REPO}\n",
            files={"mask.diff": _mask(row)},
            keeps_history=False,
            variables=container_variables(row),
            gpus=gpus(row),
        )

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
        submission: SweSubmission,
        seconds: float,
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
            environment, with_final_newline(submission.patch), _APPLY_COMMANDS, protected=submission.protected
        )
        if applied.command_index is None:
            return SweTestRun(applied=False, error=applied.output, scores={"pass_rate": 0.0})
        log = b""
        if row.level != 1:
            # The official evaluation goes on where this fails; the tests then do not find the package.
            install = _login_shell(f"cd {environment.workdir} && pip install .")
            log = (await run_bash(environment, setup.adapt_script(install))).stdout
        script = head + _tests_script(row) + await put_variant(environment, submission.variant)
        added = await run_bash(environment, setup.adapt_script(script))
        log += added.stdout
        if added.exit_code:
            # Installing the submission has run code of its own, so this may be its doing.
            end = added.stdout.decode(errors="replace")[-300:]
            return SweTestRun(
                applied=True,
                parse_error=f"the tests could not be added: {end}",
                log=log,
                scores={"pass_rate": 0.0},
            ).with_patch(applied)
        return (await _run_files(environment, row, setup, seconds, log)).with_patch(applied)


async def _run_files(
    environment: Environment, row: FeatureBenchRow, setup: InstanceSetup, seconds: float, log: bytes
) -> SweTestRun:
    """Run each test file by itself: the first that must pass now, and those that must still pass."""
    fail_to_pass, pass_to_pass = row.fail_to_pass[:1], row.pass_to_pass if row.level == 1 else ()
    results: dict[str, bool] = {}
    statuses: Statuses = {}
    took, timed_out, code = 0.0, False, 0
    for file in (*fail_to_pass, *pass_to_pass):
        command = _file_command(row, environment.workdir, file)
        done = await run_bash(environment, setup.adapt_script(command), seconds=seconds)
        log += b"$ %s\n" % file.encode() + done.stdout + b"\n"
        took += done.seconds
        timed_out = timed_out or done.timed_out
        results[file] = done.exit_code == 0 and not done.timed_out
        code = code or done.exit_code
        if file in fail_to_pass:
            statuses = find_feature_parser(row.repo)(done.stdout.decode(errors="replace"))
    ruling = OfficialRuling(
        resolved=bool(fail_to_pass) and all(results.values()),
        fail_to_pass=_label_results(results, fail_to_pass),
        pass_to_pass=_label_results(results, pass_to_pass),
    )
    return SweTestRun(
        applied=True,
        timed_out=timed_out,
        exit_code=code,
        statuses=statuses | {file: "PASSED" if passed else "FAILED" for file, passed in results.items()},
        ruling=ruling,
        scores={"pass_rate": pass_rate(statuses)},
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
        return _EMPTY_SCRIPT + _README_SCRIPT + _COMMIT_SCRIPT + bashrc_script(row)
    hidden = f"rm -rf -- {shlex.join(row.fail_to_pass)}\n" if row.fail_to_pass else ""
    return (
        f"if [ -d {ORIGINAL_REPO} ]; then {_EMPTY_SCRIPT.strip()}; cp -a {ORIGINAL_REPO}/. {WORKDIR}/; fi\n"
        "git config --global --add safe.directory '*'\n"
        f"if [ -s $FILES/mask.diff ]; then {_APPLY} $FILES/mask.diff; fi\n"
        + hidden
        + _COMMIT_SCRIPT
        + bashrc_script(row)
    )


def _tests_script(row: FeatureBenchRow) -> str:
    """Shell lines that bring the tests in. The official evaluation runs them also where their patch does not apply."""
    if row.level == 1:
        return f"rm -rf -- {shlex.join(row.fail_to_pass[:1])}\n{_APPLY} --reverse $FILES/tests.diff\n"
    # What was submitted goes, hidden files aside; only what its installation has put elsewhere is tested.
    return f"{{ rm -rf {WORKDIR}/* && cp -r {ORIGINAL_REPO}/* {WORKDIR}/; }} || exit 1\n{_APPLY} $FILES/tests.diff\n"


def _file_command(row: FeatureBenchRow, workdir: str, file: str) -> str:
    path = file if file.startswith(f"{workdir}/") else f"{workdir}/{file}"
    return _login_shell(f"cd {workdir} && {pytest_command(row)} {shlex.quote(path)}")


def _login_shell(command: str) -> str:
    """A command as the official evaluation runs it: by a login shell, in the project's conda environment."""
    return f"exec /bin/bash -lc {shlex.quote(_ACTIVATE + command)}\n"
