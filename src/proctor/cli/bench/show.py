"""``proctor bench show``."""

from typing import TYPE_CHECKING

import click

from proctor.cli.output import print_json, print_table

if TYPE_CHECKING:
    from proctor.core.result import TaskResult
    from proctor.results import RunStore


@click.command()
@click.argument("run")
@click.argument("task", required=False)
@click.option("--attempt", "sample", type=click.IntRange(min=1), default=1, show_default=True, help="Which answer.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(run: str, task: str | None, *, sample: int, as_json: bool) -> None:
    """Show RUN: its configuration and every task; or one TASK of it: verdict, evidence, cost, where the logs are."""
    from proctor.results import find_run  # noqa: PLC0415 - the help page needs none of it

    store = find_run(run)
    if task is None:
        _show_run(store, as_json=as_json)
        return
    result = store.result(task, sample)
    if as_json:
        print_json(result)
    else:
        _show_task(store, result)


def _show_run(store: "RunStore", *, as_json: bool) -> None:
    config, results = store.config(), list(store.results())
    if as_json:
        print_json({"config": config, "tasks": results})
        return
    click.echo(
        f"{config.benchmark}/{config.run_id}: {config.mode.value}, {config.agent}, model {config.model or 'none'}, "
        f"{config.runner}, {config.created_at}"
    )
    print_table(
        ["TASK", "ATTEMPT", "STATUS", "CAUSE", "COST", "SECONDS", "TURNS", "STEPS"],
        [
            [
                result.task_id,
                str(result.sample),
                result.status.value,
                result.cause.value,
                _cost(result),
                f"{result.answer_seconds:.1f}",
                str(result.metrics.turns),
                str(result.metrics.steps),
            ]
            for result in results
        ],
    )


def _show_task(store: "RunStore", result: "TaskResult") -> None:
    click.echo(f"{result.task_id}: {result.status.value} ({result.cause.value}), {_cost(result)}")
    if result.verdict is not None:
        click.echo(result.verdict.reason)
        for finding in result.verdict.findings:
            click.echo(f"audit: {finding.code}: {finding.path}: {finding.detail}")
        if result.verdict.tests:
            print_table(
                ["TEST", "BEFORE", "AFTER"],
                [[test.id, str(test.before or "-"), str(test.after or "-")] for test in result.verdict.tests],
            )
    for usage in result.usage:
        click.echo(f"{usage.model}: {usage.requests} requests, {usage.tokens.total:,} tokens")
    metrics = result.metrics
    click.echo(f"{metrics.turns} turns, {metrics.steps} steps, {metrics.compactions} compactions")
    for attempt in result.attempts:
        click.echo(f"attempt {attempt.number}: {attempt.cause.value}: {attempt.detail}")
        click.echo(f"  logs: {store.folder / attempt.logs}")


def _cost(result: "TaskResult") -> str:
    from proctor.results.store import total_cost  # noqa: PLC0415

    cost = total_cost(result.usage)
    return "cost unknown" if cost is None else f"${cost:.4f}"
