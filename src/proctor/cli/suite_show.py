"""``proctor suite show``: what is in a suite."""

from typing import Any

import click

from proctor.cli.output import print_json, print_table
from proctor.core.formatting import duration, file_size, plural


@click.command(short_help="What is in a suite, and what mining left out.")
@click.argument("suite")
@click.option("--tasks", is_flag=True, help="List the tasks.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(suite: str, *, tasks: bool, as_json: bool) -> int:
    """Show SUITE, a folder, a file or a shipped suite's name: how many tasks, of which languages, months and sizes.

    Of a mined one also which commits became tasks, and why the others did not.
    """
    from proctor.mining.report import summarise_suite

    summary = summarise_suite(suite)
    if as_json:
        print_json(summary)
        return 0
    _print_summary(summary)
    if tasks:
        click.echo("")
        rows = [
            [
                row.id,
                row.created,
                row.language,
                str(row.fail_to_pass),
                str(row.pass_to_pass),
                str(row.lines),
                duration(row.seconds) if row.seconds is not None else "",
                ", ".join(row.flags),
            ]
            for row in summary.task_rows
        ]
        print_table(["TASK", "DAY", "LANGUAGE", "FAIL TO PASS", "PASS TO PASS", "LINES", "TESTS", "FLAGS"], rows)
    return 0


def _print_summary(summary: Any) -> None:
    from proctor.cli.suite_mine import print_funnel

    click.echo(f"{summary.suite}: {plural(summary.tasks, 'task')}, {file_size(summary.disk_bytes)} on disk")
    if summary.repository:
        click.echo(f"from {summary.repository}")
    click.echo("")
    if summary.funnel:
        print_funnel(summary.funnel)
        click.echo("")
    rows = [
        [name, ", ".join(f"{key} {count}" for key, count in values.items())]
        for name, values in (
            ("languages", summary.languages),
            ("months", summary.months),
            ("instructions from", summary.instructions),
            ("licences", summary.licences),
            ("flags", summary.flags),
        )
        if values
    ]
    if summary.instructions:
        rows.append(["without flags", str(summary.fair)])
        rows.append(["excluded tests", str(summary.excluded_tests)])
        size = f", {file_size(summary.environment_bytes)} installed" if summary.environment_bytes else ""
        rows.append(["environments", f"{summary.environments}{size}"])
        rows.append(["lines of the oracle (median)", f"{summary.median_lines:g}"])
    if summary.tasks:
        labels = f"{summary.median_fail_to_pass:g}, {summary.median_pass_to_pass:g}"
        rows.append(["fail to pass, pass to pass (median)", labels])
    if summary.seconds_per_task is not None:
        rows.append(["time to mine a task", duration(summary.seconds_per_task)])
    if summary.seconds_per_candidate is not None:
        rows.append(["time for a candidate", duration(summary.seconds_per_candidate)])
    if summary.test_seconds is not None:
        rows.append(["one run of a task's tests", duration(summary.test_seconds)])
    print_table(["", ""], rows)
