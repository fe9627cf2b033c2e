"""SWE-bench: Verified, Lite, the full set and Multilingual, graded as its harness 5.0 does.

https://github.com/SWE-bench/SWE-bench
"""

from typing import Final

import msgspec

from proctor.benchmarks.swe.environment_steps import SweTestRun, apply_in_environment, put_variant, run_bash
from proctor.benchmarks.swe.eval_log import read_log, with_exit_code, with_line_before_tests
from proctor.benchmarks.swe.instance_setup import InstanceSetup, StartState
from proctor.benchmarks.swe.official_grader import OfficialGrader, SweSubmission
from proctor.benchmarks.swe.official_rules import swe_bench
from proctor.benchmarks.swe.parsers import find_parser
from proctor.benchmarks.swe.prompts import SWE_BENCH_PROMPT
from proctor.benchmarks.swe.rows import SweBenchRow
from proctor.core.environment import Environment

WORKDIR: Final = "/testbed"
TIMEOUT_SECONDS: Final = 1800.0
_APPLY_COMMANDS: Final = (
    "git apply --verbose",
    "git apply --verbose --3way",
    "git apply --verbose --reject",
    "patch --batch --forward --fuzz=5 -p1 -i",
)
_APPLY_LABELS: Final = {0: None, 1: "git apply --3way", 2: "git apply --reject", 3: "patch --fuzz=5", 80: "as it was"}


class SweBenchGrader(OfficialGrader[SweBenchRow]):
    """The official procedure for one instance."""

    grader_version = "swebench 5.0"
    grades_empty = False  # an empty patch is not run, and has a bucket of its own in their reports
    test_seconds = TIMEOUT_SECONDS

    def start_state(self, row: SweBenchRow) -> StartState:
        """The image as it is: its HEAD is a commit of the image's own, on top of the base commit."""
        del row
        return StartState(workdir=WORKDIR)

    def instruction(self, row: SweBenchRow) -> str:
        """The problem statement alone. Line ends are often those of a web form."""
        statement = row.problem_statement.replace("\r\n", "\n").strip()
        return SWE_BENCH_PROMPT.format(workdir=WORKDIR, statement=statement)

    async def run_tests(
        self,
        environment: Environment,
        row: SweBenchRow,
        setup: InstanceSetup,
        submission: SweSubmission,
        seconds: float,
    ) -> SweTestRun:
        """Apply, restore what is protected, run the eval script, read its log."""
        applied = await apply_in_environment(
            environment,
            submission.patch,
            _APPLY_COMMANDS,
            protected=submission.protected,
            clean=True,
            accept_reversible=True,
        )
        if applied.command_index is None:
            return SweTestRun(applied=False, error=applied.output)
        script = with_line_before_tests(
            with_exit_code(row.eval_script), await put_variant(environment, submission.variant)
        )
        done = await run_bash(environment, setup.adapt_script(script), seconds=seconds)
        tested = SweTestRun(
            applied=True,
            applied_with=_APPLY_LABELS[applied.command_index],
            timed_out=done.timed_out,
            log=done.stdout,
            seconds=round(done.seconds, 3),
        ).with_patch(applied)
        return tested if done.timed_out else with_ruling(row, tested)


def with_ruling(row: SweBenchRow, run: SweTestRun) -> SweTestRun:
    """A test run with what its log says."""
    read = read_log(run.log.decode(errors="replace"), find_parser(row.log_parser, row.instance_id))
    ruling = None
    if not read.parse_error:
        fail_only = row.eval_type == "fail_only"
        ruling = swe_bench(read.statuses, row.fail_to_pass, row.pass_to_pass, fail_only=fail_only)
    return msgspec.structs.replace(
        run, exit_code=read.exit_code, parse_error=read.parse_error, statuses=read.statuses, ruling=ruling
    )
