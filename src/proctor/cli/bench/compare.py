"""``proctor bench compare``."""

from typing import Any, Final

import click

from proctor.cli.bench.report_output import check_formats, format_options, print_report
from proctor.cli.output import log
from proctor.core.errors import UsageError

GATE_FAILED: Final = 10  # the exit code of a gate that does not hold
_MIN_RUNS: Final = 2


@click.command()
@click.argument("runs", nargs=-1, required=True, metavar="RUN RUN...")
@click.option(
    "--gate",
    "rule",
    metavar="RULE",
    help="A rule that every other run must meet, such as 'not worse, cost ratio <= 1.2'; exit code 10 if not.",
)
@format_options
def command(runs: tuple[str, ...], *, rule: str | None, **given: Any) -> int:
    """Compare runs with the first of them, on the tasks that both have graded, and test if the difference is chance.

    Other differences between the runs are named: only what is under test should differ. With several runs the p-values
    are corrected (Holm).
    """
    from proctor.analysis import Comparison, parse_rule  # noqa: PLC0415 - the help page needs none of it
    from proctor.report.comparison import compare_runs, comparison_document, comparison_report  # noqa: PLC0415
    from proctor.report.tables import records_csv  # noqa: PLC0415
    from proctor.results import find_run  # noqa: PLC0415

    check_formats(given)
    gate = parse_rule(rule) if rule is not None else None
    if len(runs) < _MIN_RUNS:
        raise UsageError("a comparison needs two runs", fix="name two or more")
    rows, comparisons = compare_runs([find_run(name) for name in runs], gate)
    print_report(
        lambda: comparison_document(rows, comparisons),
        given,
        as_json=lambda: comparison_report(rows, comparisons),
        as_csv=lambda: records_csv(Comparison, [one.comparison for one in comparisons]),
    )
    failed = [one.decision for one in comparisons if one.decision is not None and not one.decision.passed]
    if given["as_json"] or given["as_csv"]:
        # A program reads the results; warnings and failed gates go to stderr.
        warnings = [warning for one in comparisons for warning in one.warnings]
        for sentence in (*warnings, *(one.sentence for one in failed)):
            log(sentence)
    return GATE_FAILED if failed else 0
