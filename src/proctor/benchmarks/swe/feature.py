"""FeatureBench, which ACE-Bench has become, graded as its own evaluation does.

https://github.com/LiberCoders/FeatureBench
"""

import re
import shlex
from typing import Any, Final

from proctor.benchmarks.swe.parsers import Statuses
from proctor.benchmarks.swe.parsers.pytest_lines import pytest_summary
from proctor.benchmarks.swe.patches import ended
from proctor.benchmarks.swe.recipe import Recipe, Start
from proctor.benchmarks.swe.reversing import reversed_diff
from proctor.benchmarks.swe.rows import FeatureRow
from proctor.benchmarks.swe.rules import Ruling, Tally, pass_rate
from proctor.benchmarks.swe.steps import Trial, apply, put_back, required, shell
from proctor.core.environment import Environment

WORKDIR: Final = "/testbed"
PRISTINE: Final = "/root/my_repo"
SECONDS: Final = 1800.0
_WAYS: Final = ("git apply --whitespace=fix --verbose",)
_ACTIVATE: Final = """\
if [ -f /opt/miniconda3/bin/activate ]; then source /opt/miniconda3/bin/activate; conda activate testbed; fi
"""
_EMPTY: Final = f"find {WORKDIR} -mindepth 1 -delete\n"
_COMMIT: Final = """\
rm -rf .git
git init --quiet
git config --global --add safe.directory '*'
git add --all --force .
git -c user.name=Proctor -c user.email=proctor@localhost commit --quiet --allow-empty --message start
"""
_README: Final = "echo 'Put your package here.' > README.md\n"
_VERBOSE: Final = re.compile(r"^(\S+::.+?) (PASSED|FAILED|ERROR|SKIPPED|XFAIL)\b", re.MULTILINE)


class FeatureBench:
    """The official procedure for one instance."""

    grader = "featurebench 445dcba"
    seconds = SECONDS
    grades_empty = False
    degree: str | None = "pass_rate"

    def start(self, row: FeatureRow) -> Start:
        """Level 1: the project without the feature and its tests, as the only commit. Level 2: next to nothing."""
        script = _laid_out(row) + f"rm -rf {PRISTINE}\n"
        return Start(workdir=WORKDIR, script=script, files={"mask.diff": _mask(row)}, keeps_history=False)

    def instruction(self, row: FeatureRow) -> str:
        """The published prompt, which says all."""
        return row.problem_statement

    def gold(self, row: FeatureRow) -> bytes | None:
        """Level 1: what takes the masking back, its tests aside. Level 2 has none."""
        if row.level != 1:
            return None
        made = reversed_diff(row.patch, leaving_out=frozenset(row.fail_to_pass))
        return made.encode("utf-8", "surrogateescape") if made else None

    async def test(
        self,
        room: Environment,
        row: FeatureRow,
        recipe: Recipe,
        patch: bytes,
        *,
        restore: tuple[str, ...],
        seconds: float,
    ) -> Trial:
        """Lay the masked project out, apply, bring the hidden tests in, run each test file; exit codes decide."""
        files = "/tmp/proctor-files"  # noqa: S108 - inside a room of our own
        await room.put(_mask(row), f"{files}/mask.diff")
        await room.put(ended(row.test_patch.encode("utf-8", "surrogateescape")), f"{files}/tests.diff")
        head = f"FILES={files}\ncd {room.workdir}\n"
        await required(room, head + _laid_out(row), "laying out the masked project")
        applied = await apply(room, ended(patch), _WAYS)
        if applied.way is None:
            scores = {"pass_rate": 0.0}
            return Trial(applied=False, touched=applied.touched, complaint=applied.said, scores=scores)
        await put_back(room, restore)
        brought = await shell(room, recipe.script(head + _ACTIVATE + _bring_tests(row)), seconds=seconds)
        if brought.exit_code:
            # Level 2 installs the answer here, so this may be the answer's doing.
            end = brought.stdout.decode(errors="replace")[-300:]
            return Trial(
                applied=True,
                touched=applied.touched,
                unreadable=f"the tests could not be brought in: {end}",
                log=brought.stdout,
                scores={"pass_rate": 0.0},
            )
        return await _run_files(room, row, recipe, applied.touched, seconds)


async def _run_files(
    room: Environment, row: FeatureRow, recipe: Recipe, touched: tuple[str, ...], seconds: float
) -> Trial:
    wanted = [*row.fail_to_pass, *(row.pass_to_pass if row.level == 1 else ())]
    limit = min(float(row.settings.get("timeout_run") or seconds), seconds)
    results: dict[str, bool] = {}
    statuses: Statuses = {}
    log, took, timed_out, code = b"", 0.0, False, 0
    for file in wanted:
        done = await shell(room, recipe.script(_command(row, room.workdir, file)), seconds=limit)
        log += b"$ %s\n" % file.encode() + done.stdout + b"\n"
        took += done.seconds
        timed_out = timed_out or done.timed_out
        results[file] = done.exit_code == 0 and not done.timed_out
        code = code or done.exit_code
        if file in row.fail_to_pass:
            statuses |= _statuses(row.repo, done.stdout.decode(errors="replace"))
    rate = pass_rate(statuses)
    ruling = Ruling(
        resolved=all(results.values()),
        fail_to_pass=_tally(results, row.fail_to_pass),
        pass_to_pass=_tally(results, wanted[len(row.fail_to_pass) :]),
    )
    return Trial(
        applied=True,
        touched=touched,
        timed_out=timed_out,
        exit_code=code,
        statuses=statuses | {file: "PASSED" if passed else "FAILED" for file, passed in results.items()},
        ruling=ruling,
        scores={"pass_rate": rate},
        seconds=round(took, 3),
        log=log,
    )


def _tally(results: dict[str, bool], files: Any) -> Tally:
    return Tally(
        success=tuple(file for file in files if results[file]),
        failure=tuple(file for file in files if not results[file]),
    )


def _mask(row: FeatureRow) -> bytes:
    return ended(row.patch.encode("utf-8", "surrogateescape"))


def _laid_out(row: FeatureRow) -> str:
    if row.level != 1:
        return _EMPTY + _README + _COMMIT
    hidden = f"rm -rf -- {shlex.join(row.fail_to_pass)}\n" if row.fail_to_pass else ""
    return (
        f"if [ -d {PRISTINE} ]; then {_EMPTY.strip()}; cp -a {PRISTINE}/. {WORKDIR}/; fi\n"
        "git config --global --add safe.directory '*'\n"
        "if [ -s $FILES/mask.diff ]; then git apply --whitespace=nowarn $FILES/mask.diff; fi\n" + hidden + _COMMIT
    )


def _bring_tests(row: FeatureRow) -> str:
    if row.level == 1:
        return (
            f"set -e\nrm -rf -- {shlex.join(row.fail_to_pass)}\n"
            "git apply --reverse --whitespace=nowarn $FILES/tests.diff\n"
        )
    return f"set -e\npip install .\ncp -a {PRISTINE}/. {WORKDIR}/\ngit apply --whitespace=nowarn $FILES/tests.diff\n"


def _command(row: FeatureRow, workdir: str, file: str) -> str:
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
