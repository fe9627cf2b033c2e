"""SWE-bench: Verified, Lite, the full set and Multilingual, graded as its harness 5.0 does.

https://github.com/SWE-bench/SWE-bench
"""

from typing import Final

import msgspec

from proctor.benchmarks.swe.logs import read_log, with_exit_code
from proctor.benchmarks.swe.parsers import find_parser
from proctor.benchmarks.swe.recipe import Recipe, Start
from proctor.benchmarks.swe.rows import SweBenchRow
from proctor.benchmarks.swe.rules import swe_bench
from proctor.benchmarks.swe.steps import Trial, apply, put_back, shell
from proctor.core.environment import Environment

WORKDIR: Final = "/testbed"
SECONDS: Final = 1800.0
_WAYS: Final = (
    "git apply --verbose",
    "git apply --verbose --3way",
    "git apply --verbose --reject",
    "patch --batch --forward --fuzz=5 -p1 -i",
)
_LABELS: Final = {0: None, 1: "git apply --3way", 2: "git apply --reject", 3: "patch --fuzz=5", 80: "as it was"}
_PROMPT: Final = """\
The repository in {workdir} has a problem that this description of a pull request tells of:

<pr_description>
{statement}
</pr_description>

Change the source code in {workdir} so that what is described works, also in cases that are not spelled out. Tests for
it exist already and are not yours to write: leave test files and the configuration of tests alone. All that the
project needs is installed."""


class SweBench:
    """The official procedure for one instance."""

    grader = "swebench 5.0"
    seconds = SECONDS
    grades_empty = False  # an empty patch is not run, and has a bucket of its own in their reports
    degree: str | None = None

    def start(self, row: SweBenchRow) -> Start:
        """The image as it is: its HEAD is a commit of the image's own, on top of the base commit."""
        del row
        return Start(workdir=WORKDIR)

    def instruction(self, row: SweBenchRow) -> str:
        """The problem statement alone. Line ends are often those of a web form."""
        statement = row.problem_statement.replace("\r\n", "\n").strip()
        return _PROMPT.format(workdir=WORKDIR, statement=statement)

    def gold(self, row: SweBenchRow) -> bytes:
        """The reference patch."""
        return row.patch.encode("utf-8", "surrogateescape")

    async def test(
        self,
        room: Environment,
        row: SweBenchRow,
        recipe: Recipe,
        patch: bytes,
        *,
        restore: tuple[str, ...],
        seconds: float,
    ) -> Trial:
        """Apply, put back what is protected, run the eval script, read its log."""
        applied = await apply(room, patch, _WAYS, clean=True, accept_reversible=True)
        if applied.way is None:
            return Trial(applied=False, touched=applied.touched, complaint=applied.said)
        await put_back(room, restore)
        done = await shell(room, recipe.script(with_exit_code(row.eval_script)), seconds=seconds)
        tested = Trial(
            applied=True,
            applied_with=_LABELS[applied.way],
            touched=applied.touched,
            timed_out=done.timed_out,
            log=done.stdout,
            seconds=round(done.seconds, 3),
        )
        return tested if done.timed_out else judged(row, tested)


def judged(row: SweBenchRow, tested: Trial) -> Trial:
    """A test run with what its log says."""
    read = read_log(tested.log.decode(errors="replace"), find_parser(row.log_parser, row.instance_id))
    ruling = None
    if not read.unreadable:
        fail_only = row.eval_type == "fail_only"
        ruling = swe_bench(read.statuses, row.fail_to_pass, row.pass_to_pass, fail_only=fail_only)
    return msgspec.structs.replace(
        tested, exit_code=read.exit_code, unreadable=read.unreadable, statuses=read.statuses, ruling=ruling
    )
