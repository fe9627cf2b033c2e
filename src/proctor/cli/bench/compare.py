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
    help="What every run must meet against the first, such as 'not worse, cost ratio <= 1.2'; exit code 10 if not.",
)
@format_options
def command(runs: tuple[str, ...], *, rule: str | None, **given: Any) -> int:
    """Hold runs against the first of them, on the tasks that both have graded, and say if it is more than chance.

    What else was different between them is said too: only what is under test should be. Several runs at once are
    corrected for being several (Holm).
    """
    from proctor.analysis import Comparison, parse_rule  # noqa: PLC0415 - the help page needs none of it
    from proctor.report.comparison import compare_runs, comparison_document, comparison_report  # noqa: PLC0415
    from proctor.report.tables import records_csv  # noqa: PLC0415
    from proctor.results import find_run  # noqa: PLC0415

    check_formats(given)
    gate = parse_rule(rule) if rule is not None else None
    if len(runs) < _MIN_RUNS:
        raise UsageError("one run has nothing to be compared with", fix="name two or more")
    rows, held = compare_runs([find_run(name) for name in runs], gate)
    print_report(
        lambda: comparison_document(rows, held),
        given,
        as_json=lambda: comparison_report(rows, held),
        as_csv=lambda: records_csv(Comparison, [one.comparison for one in held]),
    )
    failed = [one.decision for one in held if one.decision is not None and not one.decision.passed]
    if given["as_json"] or given["as_csv"]:
        # A program reads the results; whoever reads its log should still learn what to mind, and why a gate is shut.
        for sentence in (*(warning for one in held for warning in one.warnings), *(one.sentence for one in failed)):
            log(sentence)
    return GATE_FAILED if failed else 0
