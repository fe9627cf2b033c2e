"""``proctor bench``: list, run, grade and compare benchmarks.

The commands and their options are declared here. What a command does is in a module beside, which is imported when the
command is used: a help page needs none of it.
"""

import importlib
from pathlib import Path
from typing import Any

import click

from proctor.cli.bench.options import (
    all_option,
    benchmark_argument,
    document_options,
    evaluate_options,
    format_option,
    json_option,
    list_options,
    parity_options,
    quiet_option,
    read_given,
    read_request,
    resume_options,
    run_options,
    sweep_options,
    validate_options,
)
from proctor.cli.groups import OrderedGroup, completes, results_option
from proctor.core.request import RunRequest

_FILE = click.Path(path_type=Path)
_EXISTING = click.Path(path_type=Path, exists=True)
_dry_run_option = click.option("--dry-run", is_flag=True, help="Show what would be done, and the maximum cost.")


def _body(module: str) -> Any:
    return importlib.import_module(f"proctor.cli.bench.{module}")


@click.group(cls=OrderedGroup, no_args_is_help=True)
def command() -> None:
    """List, run, grade and compare benchmarks."""


@command.command("list", short_help="List benchmarks, or the tasks of one.")
@benchmark_argument
@list_options
@all_option
@click.option("--runnable", is_flag=True, help="Show which tasks this machine can run, and why not the others.")
@json_option
@format_option
def list_(**given: Any) -> Any:
    """List the benchmarks; with BENCH or --suite, the tasks of one."""
    return _body("listing").print_list(given)


@command.command(short_help="Download a benchmark's data.")
@click.argument("bench", shell_complete=completes("benchmarks"))
@click.option(
    "--from", "origin", metavar="PATH|REPOSITORY", help="A copy on this machine; for `harbor`, also a repository."
)
@click.option("--split", metavar="NAME", help="A part of the benchmark, where it has several.")
@json_option
@quiet_option
def fetch(**given: Any) -> Any:
    """Download the data of BENCH from its official source, or take it from a copy; its digest is stored with it."""
    return _body("listing").fetch(**given)


@command.command(short_help="Validate a benchmark's tasks on this machine.")
@benchmark_argument
@validate_options
@all_option
@click.option(
    "--write-exclusions",
    type=_FILE,
    metavar="FILE",
    help="Write the ids of unhealthy tasks to a file, which --exclude reads.",
)
@json_option
@format_option
@quiet_option
def validate(**given: Any) -> Any:
    """Validate on this machine that each task of BENCH, or of --suite, fails as labelled, is solved by its oracle,
    gives the same results again, and does not leak its solution.

    Exits 20 when a task is not healthy.
    """
    return _body("grading").validate(given)


@command.command("eval", short_help="Grade predictions, or the oracle.")
@benchmark_argument
@click.option(
    "--predictions",
    type=_FILE,
    metavar="FILE",
    help="The predictions to grade: JSON lines, or a file of the benchmark's own harness.",
)
@click.option("--oracle", is_flag=True, help="Grade the oracle instead: the reference solutions.")
@evaluate_options
@all_option
@json_option
@format_option
@click.option(
    "--out",
    type=_FILE,
    metavar="FILE",
    help="Also write the report to this file: in the form of --format, else JSON.",
)
@quiet_option
def evaluate(**given: Any) -> Any:
    """Grade predictions for the tasks of BENCH, or of --suite, and report.

    Exits 0 when every task has a verdict, 12 when a task ended in an error that is not the submission's.
    """
    return _body("grading").evaluate(given)


@command.command(short_help="Grade another harness's predictions, and list where the verdicts differ.")
@click.argument("benchmark", metavar="BENCH", shell_complete=completes("benchmarks"))
@click.argument("file", type=_EXISTING)
@click.option("--predictions", type=_FILE, required=True, help="The predictions file that the report grades.")
@parity_options
@all_option
@json_option
@quiet_option
def parity(file: Path, **given: Any) -> Any:
    """Grade the predictions of another harness here, and list where its report FILE and the official rule here differ.

    FILE is a report of the benchmark's own harness, or a folder of its instances' reports. Exits 0 when all that could
    be graded agrees, 20 when something does not, 12 when a prediction could not be graded here.
    """
    return _body("grading").compare(file, given)


@command.command(short_help="Run an agent on the tasks and grade it.")
@benchmark_argument
@run_options
@all_option
@results_option
@_dry_run_option
@json_option
@quiet_option
def run(**given: Any) -> Any:
    """Run an agent on the tasks of BENCH, or of --suite; grade and record every submission.

    Exits 0 when every task has a verdict, 12 when one ended in an error or the run had to stop before its end.
    """
    return _body("session").run_job(read_request(RunRequest, given, benchmark=given["benchmark"]), given)


@command.command(short_help="Run several configurations and compare them.")
@click.argument("file", type=_FILE)
@sweep_options
@_dry_run_option
@results_option
@click.option("--yes", is_flag=True, help="Start without asking.")
@json_option
@quiet_option
def sweep(file: Path, **given: Any) -> Any:
    """Make the runs that FILE (TOML) describes, interleaved by task, and compare them.

    The plan and its maximum cost are shown first. On a terminal you are asked whether to start; elsewhere a
    sweep without a cost limit needs --yes. A sweep that stops is resumed as one:
    `proctor bench resume BENCH/SWEEP`, which at its end, or after it, prints the comparison.

    Exits 0 when every trial has a verdict, 12 when one ended in an error or the sweep had to stop before its end.
    """
    session = _body("session")
    return session.run_job(session.read_sweep_file(file), given, read_given(RunRequest, given))


@command.command(short_help="Resume a run, or a sweep, where it stopped.")
@click.argument("run", shell_complete=completes("runs"))
@resume_options
@results_option
@json_option
@quiet_option
def resume(run: str, **given: Any) -> Any:
    """Resume RUN where it stopped. No finished stage is repeated, and no submission is paid for twice.

    RUN is a folder, benchmark/run-id, or an id, name or label that only one run has. A sweep is named alike, and
    resumed as one. With --max-cost it gets a new limit, which counts what it has spent before. Exits as `run` and
    `sweep` do.
    """
    session = _body("session")
    return session.run_job(session.stored_job(run), given, read_given(RunRequest, given))


@command.command(short_help="Show a run that is running elsewhere.")
@click.argument("run", shell_complete=completes("runs"))
@click.option("--once", is_flag=True, help="Print the progress once and exit.")
@results_option
@json_option
def watch(**given: Any) -> Any:
    """Show the progress of RUN, or of a sweep, until it ends. It is read from the stored files; nothing is written.

    RUN may be running in another terminal, as another user, or on another machine that shares the folder. Exits 0 when
    every trial has a result, 12 when the run stopped before.
    """
    return _body("watch").watch(**given)


@command.command(short_help="Report on a benchmark's runs: rates, costs, times, failure reasons.")
@click.argument("bench", shell_complete=completes("stored_benchmarks"))
@click.option(
    "--healthy/--no-healthy",
    default=None,
    help="Also the score on the tasks that `validate` found healthy; by default where that needs no image.",
)
@click.option("--logs", is_flag=True, help="Also read the logs: wasted tool calls, agents that gave up. Takes longer.")
@results_option
@document_options
def report(**given: Any) -> Any:
    """Report on the runs of BENCH: resolve rates with intervals, errors, cost, time, failure reasons.

    Published results are listed below the table.
    """
    return _body("report").print_runs(**given)


@command.command(short_help="Compare runs on the same tasks.")
@click.argument("runs", nargs=-1, required=True, metavar="RUN RUN...", shell_complete=completes("runs"))
@click.option(
    "--gate",
    "rule",
    metavar="RULE",
    help="A rule that every other run must meet, such as 'not worse, cost ratio <= 1.2'; exit code 10 if not.",
)
@results_option
@document_options
def compare(**given: Any) -> Any:
    """Compare runs with the first of them, on the tasks that both have graded, and test if the difference is chance.

    Other differences between the runs are named: only what is under test should differ. With several runs the p-values
    are corrected (Holm).
    """
    return _body("compare").print_comparison(**given)


@command.command(short_help="Show the Pareto frontier of rate, cost and time.")
@click.argument("bench", shell_complete=completes("stored_benchmarks"))
@click.option(
    "--by",
    "names",
    multiple=True,
    type=click.Choice(["rate", "cost", "time"]),
    help="An objective; may be repeated. [default: all three]",
)
@results_option
@document_options
def pareto(**given: Any) -> Any:
    """Show which runs of BENCH are on the Pareto frontier of rate, cost and time, with bootstrap frequencies."""
    return _body("compare").print_pareto(**given)


@command.command(short_help="Break results down by task category.")
@click.argument("runs", nargs=-1, required=True, metavar="RUN [RUN]", shell_complete=completes("runs"))
@click.option(
    "--by",
    "fields",
    multiple=True,
    metavar="FIELD",
    help="A field of the tasks: a category of the benchmark, or tag, oracle files, oracle lines, fail-to-pass tests, "
    "pass-to-pass tests, instruction words. May be repeated. [default: every category that makes groups]",
)
@results_option
@document_options
def breakdown(**given: Any) -> Any:
    """Break the results of a RUN down by task category; of two runs, show where the second is better.

    The p-values are corrected for the number of groups (Holm).
    """
    return _body("compare").print_breakdown(**given)


@command.command(short_help="Show one run, or one task of it.")
@click.argument("run", shell_complete=completes("runs"))
@click.argument("task", required=False, shell_complete=completes("tasks_of_run"))
@click.option(
    "--trial", metavar="K", type=click.IntRange(min=1), help="With TASK: the number of the trial. [default: 1]"
)
@click.option("--attempt", "former_trial", type=click.IntRange(min=1), hidden=True)
@click.option("--timeline", is_flag=True, help="With TASK: when each agent of a pod was active.")
@results_option
@json_option
def show(**given: Any) -> Any:
    """Show RUN: its configuration and every task; or one TASK of it: verdict, evidence, cost, logs."""
    return _body("show").show(**given)


@command.command(short_help="Write a run in another tool's format.")
@click.argument("run", required=False, shell_complete=completes("runs"))
@click.option("--format", "form", metavar="FORMAT", help="Which format; without it, the formats are listed.")
@click.option("--out", type=_FILE, help="The file or folder to write. [default: BENCH-RUN-FORMAT, here]")
@click.option("--name", help="The name of the agent, in formats that have one. [default: agent and model]")
@click.option(
    "--image", metavar="IMAGE", help="For `harbor-tasks`: what images are built on, where the suite names none."
)
@click.option("--force", is_flag=True, help="Overwrite the target.")
@results_option
@json_option
def export(**given: Any) -> Any:
    """Write RUN in the format of another tool or of a benchmark's own harness; with `--format harbor-tasks`, RUN is a
    suite, whose tasks are written.
    """
    return _body("formats").export(**given)


@command.command("import", short_help="Store another tool's results as a run.")
@click.argument("source", type=_EXISTING)
@click.option(
    "--format", "form", metavar="FORMAT", required=True, help="Which format; `proctor bench export` lists them."
)
@click.option("--benchmark", metavar="BENCH", help="The benchmark of the tasks, if the files do not name it.")
@click.option("--agent", help="The agent: if the files do not name it, or to choose one of several.")
@click.option("--model", help="The model, if the files do not name it.")
@results_option
@json_option
def import_(**given: Any) -> Any:
    """Store SOURCE, the output of another tool, as a run: report, compare and view then work on it.

    The run records its origin. Values that the files do not have stay unknown.
    """
    return _body("formats").import_(**given)


@command.command(short_help="Print a report's summary metrics.")
@click.argument("report")
@json_option
def score(**given: Any) -> Any:
    """Print the summary metrics of REPORT, an evaluation report of Proctor or of a registered format; - is stdin."""
    return _body("formats").print_score(**given)
