"""SWE-EVO, graded as its modified SWE-bench 4 harness does.

https://github.com/SWE-EVO/SWE-EVO
"""

import shlex
from typing import Final

import msgspec

from proctor.benchmarks.swe.logs import END, START, read_log_4
from proctor.benchmarks.swe.parsers import find_parser
from proctor.benchmarks.swe.patches import ended, files_to_test, touched_paths
from proctor.benchmarks.swe.recipe import Recipe, Start
from proctor.benchmarks.swe.rows import EvoRow
from proctor.benchmarks.swe.rules import swe_bench_4
from proctor.benchmarks.swe.steps import Trial, apply, put_back, required, shell
from proctor.core.environment import Environment

WORKDIR: Final = "/testbed"
SECONDS: Final = 1800.0
_WAYS: Final = ("git apply --verbose", "git apply --verbose --reject", "patch --batch --fuzz=5 -p1 -i")
_LABELS: Final = {0: None, 1: "git apply --reject", 2: "patch --fuzz=5"}
_PROMPT: Final = """\
The repository in {workdir} is at version {start} of its project. These are the notes of the next release, {end}:

<release_notes>
{statement}
</release_notes>

Change the source code in {workdir} so that it becomes what these notes describe. Tests for it exist already and are not
yours to write: leave test files and the configuration of tests alone. All that the project needs is installed."""
_FLAGS: Final = (
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
    "export PYTHONPATH=${PYTHONPATH:-}:$(pwd)",
    "echo 'cython<3' > /tmp/constraint.txt",
    "export PIP_CONSTRAINT=/tmp/constraint.txt",
    "python -m pip install -r conans/requirements.txt",
    "python -m pip install -r conans/requirements_server.txt",
    "python -m pip install -r conans/requirements_dev.txt",
)
# How each project is installed anew before its tests, as the harness's table of specifications has it.
_INSTALL: Final = {
    "dask/dask": ("python -m pip install --no-deps -e .",),
    "iterative/dvc": _DVC,
    "psf/requests": ("python -m pip install .",),
    "modin-project/modin": ("python -m pip install -e .",),
    "pydantic/pydantic": ('export PATH="$HOME/.local/bin:$PATH"', "pdm add pre-commit", "make install"),
    "conan-io/conan": _CONAN,
    "scikit-learn/scikit-learn": ("python -m pip install -v --no-use-pep517 --no-build-isolation -e .",),
}
_OLD_DVC: Final = ('python -m pip install "numpy<=1.20"', 'python -m pip install "pytest<8"')


class SweEvo:
    """The official procedure for one instance."""

    grader = "swe-evo d46078d"
    seconds = SECONDS
    grades_empty = True
    degree: str | None = "fix_rate"

    def start(self, row: EvoRow) -> Start:
        """The donor's image, reset to the version that the release starts from."""
        return Start(workdir=WORKDIR, script=f"git reset --quiet --hard {shlex.quote(row.base_commit)}\n")

    def instruction(self, row: EvoRow) -> str:
        """The release notes alone: neither its pull requests nor its commits."""
        return _PROMPT.format(
            workdir=WORKDIR,
            start=row.start_version,
            end=row.end_version,
            statement=row.problem_statement.replace("\r\n", "\n").strip(),
        )

    def gold(self, row: EvoRow) -> bytes:
        """The release as a patch, without its tests."""
        return row.patch.encode("utf-8", "surrogateescape")

    async def test(
        self, room: Environment, row: EvoRow, recipe: Recipe, patch: bytes, *, restore: tuple[str, ...], seconds: float
    ) -> Trial:
        """Reset, apply tests and answer, install, run the tests of the test patch."""
        await required(
            room,
            f"cd {room.workdir}\ngit config --global --add safe.directory '*'\n"
            f"git reset --quiet --hard {shlex.quote(row.base_commit)}",
            "resetting the repository",
        )
        tests = ended(row.test_patch.encode("utf-8", "surrogateescape"))
        if restore:
            # With the answer's own tests put back, the two no longer meet, and are applied one after the other.
            applied = await apply(room, patch, _WAYS)
            if applied.way is not None:
                await put_back(room, restore)
                later = await apply(room, tests, _WAYS)
                applied = applied if later.way is not None else later
        else:
            applied = await apply(room, tests + patch, _WAYS)
        own, theirs = set(touched_paths(patch)), set(touched_paths(tests))
        touched = tuple(path for path in applied.touched if path in own or path not in theirs)
        if applied.way is None:
            return Trial(applied=False, touched=touched, complaint=applied.said, scores={"fix_rate": 0.0})
        done = await shell(room, recipe.script(eval_script(row)), seconds=seconds)
        tested = Trial(
            applied=True,
            applied_with=_LABELS[applied.way],
            touched=touched,
            timed_out=done.timed_out,
            scores={"fix_rate": 0.0},
            log=done.stdout,
            seconds=round(done.seconds, 3),
        )
        return tested if done.timed_out else judged(row, tested)


def judged(row: EvoRow, tested: Trial) -> Trial:
    """A test run with what its log says."""
    parser = find_parser(row.log_parser, row.instance_id, legacy=True)
    read = read_log_4(tested.log.decode(errors="replace"), parser)
    ruling = None if read.unreadable else swe_bench_4(read.statuses, row.fail_to_pass, row.pass_to_pass)
    return msgspec.structs.replace(
        tested,
        unreadable=read.unreadable,
        statuses=read.statuses,
        ruling=ruling,
        scores={"fix_rate": round(ruling.fix_rate, 6) if ruling else 0.0},
    )


def eval_script(row: EvoRow) -> str:
    """The official eval script: the test patch is in place already, so it only installs and tests."""
    activate = ["source /opt/miniconda3/bin/activate", "conda activate testbed"]
    return "\n".join(
        [
            "#!/bin/bash",
            "set -uxo pipefail",
            *activate,
            f"cd {WORKDIR}",
            f"git config --global --add safe.directory {WORKDIR}",
            f"cd {WORKDIR}",
            "git status",
            "git show",
            f"git -c core.fileMode=false diff {row.base_commit}",
            *activate,
            *_install(row),
            f": '{START}'",
            f"{_test_command(row)} {shlex.join(_test_files(row))}",
            f": '{END}'",
            "",
        ]
    )


def _install(row: EvoRow) -> tuple[str, ...]:
    lines = _INSTALL.get(row.repo, ("python -m pip install -e .",))
    if row.repo == "iterative/dvc" and row.version.partition(".")[0] in {"0", "1", "2"}:
        lines += _OLD_DVC
    if row.repo == "dask/dask" and row.end_version.partition(".")[0] <= "2023":
        lines += ("pip install 'pandas<2.0'",)
    if row.instance_id == "dask__dask_2023.6.0_2023.6.1":
        lines += ("pip install distributed==2023.6.0",)
    return lines


def _test_command(row: EvoRow) -> str:
    """The stored command, with the harness's flags behind its first `pytest`, each of them once."""
    words = row.test_cmds.replace("--continue-on-collection-errors", "").split()
    place = words.index("pytest") + 1 if "pytest" in words else len(words)
    return " ".join([*words[:place], _FLAGS, *words[place:]])


def _test_files(row: EvoRow) -> tuple[str, ...]:
    files = files_to_test(row.test_patch, deleted=False)
    python_only = row.repo in {"dask/dask", "conan-io/conan"} or row.instance_id.startswith("iterative__dvc_2.8.1")
    return tuple(file for file in files if file.endswith(".py")) if python_only else files
