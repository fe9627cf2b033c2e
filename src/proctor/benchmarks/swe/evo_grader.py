"""SWE-EVO, graded as its modified SWE-bench 4 harness does.

https://github.com/SWE-EVO/SWE-EVO
"""

import asyncio
import os
import shlex
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Final

import msgspec

from proctor.benchmarks.swe.environment_steps import (
    SweTestRun,
    apply_in_environment,
    put_variant,
    run_bash,
    run_required,
)
from proctor.benchmarks.swe.eval_log import END_MARKER, START_MARKER, read_log_v4, with_line_before_tests
from proctor.benchmarks.swe.instance_setup import InstanceSetup, StartState
from proctor.benchmarks.swe.official_grader import OfficialGrader, SweSubmission
from proctor.benchmarks.swe.official_rules import swe_bench_v4
from proctor.benchmarks.swe.parsers import find_parser
from proctor.benchmarks.swe.patches import files_to_test, touched_paths, with_final_newline
from proctor.benchmarks.swe.prompts import SWE_EVO_PROMPT
from proctor.benchmarks.swe.rows import SweEvoRow
from proctor.core.environment import Environment
from proctor.core.submission import PatchKind
from proctor.core.trees import read_entry, write_entry
from proctor.workspaces import InvalidSubmission, TreeChange, apply_patch

WORKDIR: Final = "/testbed"
TIMEOUT_SECONDS: Final = 1800.0
_APPLY_COMMANDS: Final = ("git apply --verbose", "git apply --verbose --reject", "patch --batch --fuzz=5 -p1 -i")
_APPLY_LABELS: Final = {0: None, 1: "git apply --reject", 2: "patch --fuzz=5"}
_PYTEST_FLAGS: Final = (
    "--continue-on-collection-errors -W default::DeprecationWarning -W default::pytest.PytestDeprecationWarning"
)
_DVC: Final = (
    "python -m pip install --upgrade pip wheel GitPython",
    'python -m pip install "cython<3.0.0" && python -m pip install --no-build-isolation pyyaml==5.4.1',
    "python -m pip install git+https://github.com/iterative/mock-ssh-server.git || true",
    "python -m pip install -r tests/requirements.txt || true",
    "python -m pip install -r test-requirements.txt || true",
    'python -m pip install -e ".[tests,dev,all_remotes,all,testing]"',
)
_CONAN: Final = (
    "echo 'cython<3' > /tmp/constraint.txt",
    "export PIP_CONSTRAINT=/tmp/constraint.txt",
    "python -m pip install -r conans/requirements.txt",
    "python -m pip install -r conans/requirements_server.txt",
    "python -m pip install -r conans/requirements_dev.txt",
)
_EXPORTS: Final = {"conan-io/conan": ("export PYTHONPATH=${PYTHONPATH:-}:$(pwd)",)}
# How each project is installed anew before its tests, as the harness's table of specifications has it.
_INSTALL_COMMANDS: Final = {
    "dask/dask": ("python -m pip install --no-deps -e .",),
    "iterative/dvc": _DVC,
    "psf/requests": ("python -m pip install .",),
    "modin-project/modin": (
        "python -m pip install 'numpy<2.0'",
        "python -m pip install --upgrade Cython",
        "python -m pip install -r requirements-dev.txt",
        "python -m pip install -e .",
    ),
    "pydantic/pydantic": ('export PATH="$HOME/.local/bin:$PATH"', "pdm add pre-commit", "make install"),
    "conan-io/conan": _CONAN,
    "scikit-learn/scikit-learn": ("python -m pip install -v --no-use-pep517 --no-build-isolation -e .",),
}
_PYTHON_FILES_ONLY: Final = frozenset({"conan-io__conan_2.0.14_2.0.15", "iterative__dvc_2.8.1_2.8.2"})
_OLD_DVC: Final = ('python -m pip install "numpy<=1.20"', 'python -m pip install "pytest<8"')
# The versions of DVC in the harness's table that do not have these two pins. It looks a release up anew, and takes the
# last version whose text occurs anywhere in the release's; these come last. A row's own `version` may be another one.
_NEWER_DVC: Final = (
    *("3.4", "3.5", "3.6", "3.10", "3.11", "3.12", "3.13", "3.14", "3.15", "3.17", "3.19"),
    *("3.23", "3.24", "3.28", "3.29", "3.36", "3.37", "3.38"),
)


class SweEvoGrader(OfficialGrader[SweEvoRow]):
    """The official procedure for one instance."""

    grader_version = "swe-evo d46078d"
    score_name = "fix_rate"
    test_seconds = TIMEOUT_SECONDS

    def start_state(self, row: SweEvoRow) -> StartState:
        """The donor's image, reset to the version that the release starts from."""
        return StartState(workdir=WORKDIR, script=f"git reset --quiet --hard {shlex.quote(row.base_commit)}\n")

    def instruction(self, row: SweEvoRow) -> str:
        """The release notes alone: neither its pull requests nor its commits."""
        return SWE_EVO_PROMPT.format(
            workdir=WORKDIR,
            start=row.start_version,
            end=row.end_version,
            statement=row.problem_statement.replace("\r\n", "\n").strip(),
        )

    async def run_tests(
        self, environment: Environment, row: SweEvoRow, setup: InstanceSetup, submission: SweSubmission, seconds: float
    ) -> SweTestRun:
        """Reset, apply tests and submission, install, run the tests of the test patch."""
        reset = f"git reset --quiet --hard {shlex.quote(row.base_commit)}"
        await run_required(
            environment,
            f"cd {environment.workdir}\ngit config --global --add safe.directory '*'\n{reset}",
            "resetting the repository",
        )
        tests = with_final_newline(row.test_patch.encode("utf-8", "surrogateescape"))
        if submission.protected:
            # With the submission's own tests restored, the two no longer meet, and are applied one after the other.
            applied = failed = await apply_in_environment(
                environment, submission.patch, _APPLY_COMMANDS, protected=submission.protected
            )
            if applied.command_index is not None:
                failed = await apply_in_environment(environment, tests, _APPLY_COMMANDS)
        else:
            applied = failed = await apply_in_environment(environment, tests + submission.patch, _APPLY_COMMANDS)
            if failed.command_index is None:
                # What the submission changes by itself decides whether it is tested with its own tests restored.
                await run_required(environment, f"cd {environment.workdir}\n{reset}\ngit clean -fdq", "resetting")
                applied = await apply_in_environment(environment, submission.patch, _APPLY_COMMANDS)
            else:
                applied = replace(applied, change=await asyncio.to_thread(_without_tests, applied.change, tests))
        if failed.command_index is None:
            return SweTestRun(applied=False, error=failed.output, scores={"fix_rate": 0.0}).with_patch(applied)
        script = with_line_before_tests(eval_script(row), await put_variant(environment, submission.variant))
        done = await run_bash(environment, setup.adapt_script(script), seconds=seconds)
        tested = SweTestRun(
            applied=True,
            applied_with=_APPLY_LABELS[applied.command_index or 0],
            timed_out=done.timed_out,
            scores={"fix_rate": 0.0},
            log=done.stdout,
            seconds=round(done.seconds, 3),
        ).with_patch(applied)
        return tested if done.timed_out else with_ruling(row, tested)


def _without_tests(change: TreeChange, tests: bytes) -> TreeChange:
    """What the submission did to a tree to which the benchmark's test patch was applied together with it."""
    paths = touched_paths(tests)
    with tempfile.TemporaryDirectory(prefix="proctor-swe-") as folder:
        tree = Path(folder)
        for path in paths:
            if path in change.before:
                write_entry(tree, os.fsencode(path), change.before[path])
        try:
            apply_patch(tree, tests, PatchKind.UNIFIED_DIFF)
        except InvalidSubmission:
            return change  # it needed a fallback of the official grader's: all counts as the submission's
        expected = {path: read_entry(tree, os.fsencode(path)) for path in paths}
    before = {**change.before, **expected}
    after = {**dict.fromkeys(paths), **change.after}
    return TreeChange(
        before={path: entry for path, entry in before.items() if entry is not None and entry != after.get(path)},
        after={path: entry for path, entry in after.items() if entry is not None and entry != before.get(path)},
    )


def with_ruling(row: SweEvoRow, run: SweTestRun) -> SweTestRun:
    """A test run with what its log says."""
    parser = find_parser(row.log_parser, row.instance_id, legacy=True)
    read = read_log_v4(run.log.decode(errors="replace"), parser)
    ruling = None if read.parse_error else swe_bench_v4(read.statuses, row.fail_to_pass, row.pass_to_pass)
    return msgspec.structs.replace(
        run,
        parse_error=read.parse_error,
        statuses=read.statuses,
        ruling=ruling,
        scores={"fix_rate": round(ruling.fix_rate, 6) if ruling else 0.0},
    )


def eval_script(row: SweEvoRow) -> str:
    """The official eval script: the test patch is in place already, so it only installs and tests."""
    activate = ["source /opt/miniconda3/bin/activate", "conda activate testbed"]
    return "\n".join(
        [
            "#!/bin/bash",
            "set -uxo pipefail",
            *activate,
            f"cd {WORKDIR}",
            *_EXPORTS.get(row.repo, ()),
            f"git config --global --add safe.directory {WORKDIR}",
            f"cd {WORKDIR}",
            "git status",
            "git show",
            f"git -c core.fileMode=false diff {row.base_commit}",
            *activate,
            *_install(row),
            f": '{START_MARKER}'",
            f"{_test_command(row)} {shlex.join(_test_files(row))}",
            f": '{END_MARKER}'",
            "",
        ]
    )


def _install(row: SweEvoRow) -> tuple[str, ...]:
    lines = _INSTALL_COMMANDS.get(row.repo, ("python -m pip install -e .",))
    if row.repo == "iterative/dvc" and not any(version in row.end_version for version in _NEWER_DVC):
        lines += _OLD_DVC
    if row.repo == "dask/dask" and row.start_version.partition(".")[0] <= "2023":
        lines += ("pip install 'pandas<2.0'",)
        if row.end_version == "2023.6.1":
            lines += ("pip install 'distributed==2023.6.0'",)
    return lines


def _test_command(row: SweEvoRow) -> str:
    """The stored command, with the harness's flags behind its first `pytest`, each of them once."""
    words = row.test_cmds.replace("--continue-on-collection-errors", "").split()
    place = words.index("pytest") + 1 if "pytest" in words else len(words)
    return " ".join([*words[:place], _PYTEST_FLAGS, *words[place:]])


def _test_files(row: SweEvoRow) -> tuple[str, ...]:
    files = files_to_test(row.test_patch, deleted=False)
    python_only = row.repo == "dask/dask" or row.instance_id in _PYTHON_FILES_ONLY
    return tuple(file for file in files if file.endswith(".py")) if python_only else files
