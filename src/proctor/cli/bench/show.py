"""What `show` does: one run, or one task of it."""

import shutil
from collections.abc import Iterator

import click

from proctor.agents.h2 import TIMELINE_FILE, Timeline, render_timeline
from proctor.cli.bench.report_output import log_unreadable
from proctor.cli.output import print_json, print_table
from proctor.core.causes import Status
from proctor.core.errors import UsageError
from proctor.core.formatting import NO_VALUE, duration, money, percent, plural, reason_lines, timestamp, visible
from proctor.core.record import read_record
from proctor.core.result import AlteredRequests, Member, TaskResult, WebUse
from proctor.core.run import RunConfig
from proctor.core.verdict import ControlSummary, Verdict
from proctor.report import run_row
from proctor.report.cli_records import RunDetails
from proctor.report.runs import control_notes, estimate_notes, web_notes
from proctor.results import RunStore, find_run, usage_cost
from proctor.results.run_names import run_title


def show(
    run: str, task: str | None, *, trial: int | None, former_trial: int | None, timeline: bool, as_json: bool
) -> None:
    """``proctor bench show``."""
    store = find_run(run)
    trial = trial or former_trial
    if task is None and (timeline or trial is not None):
        raise UsageError(f"--{'timeline' if timeline else 'trial'} is for one task", fix="name the TASK too")
    if task is None:
        _show_run(store, as_json=as_json)
        return
    result = store.result(task, trial or 1)
    if timeline:
        _show_timeline(store, result, as_json=as_json)
    elif as_json:
        print_json(result)
    else:
        _show_task(store, result)


def _show_run(store: RunStore, *, as_json: bool) -> None:
    config, results = store.config(), list(store.results())
    log_unreadable([store])
    if as_json:
        print_json(RunDetails(config=config, tasks=tuple(results)))
        return
    row = run_row(config, results)
    title = run_title(store.name, config.name or config.label or "")
    click.echo(f"{title}: {config.mode.value}, {config.agent}, {timestamp(config.created_at)}")
    for line in _label_lines(config):
        click.echo(visible(line))
    isolation = "" if config.isolation else " without isolation"
    web = f"; the provider's tools {'allowed' if config.web else 'not allowed'}" if config.model else ""
    click.echo(f"model {config.model or 'none'}; {config.runner}{isolation}{web}")
    click.echo(", ".join(f"{name} {version}" for name, version in config.versions.items()))
    click.echo()
    print_table(
        ["TASK", "STATUS", "CAUSE", "COST", "TIME", "TURNS", "STEPS", "ATTEMPTS"],
        [
            [
                _trial_name(result),
                result.status.value,
                result.cause.value,
                money(usage_cost(result.usage)),
                duration(result.agent_seconds),
                str(result.metrics.turns),
                str(result.metrics.steps),
                str(len(result.attempts)),
            ]
            for result in results
        ],
    )
    missing = f", {row.missing} not recorded yet" if row.missing > 0 else ""
    errors = plural(row.errors, "error")
    click.echo(f"\n{row.resolved} of {row.counted} resolved, {errors}, {row.skipped} skipped{missing}")
    for status in (Status.ERROR, Status.SKIPPED):
        reasons = {_trial_name(result): result.reason for result in results if result.status is status}
        for line in reason_lines({name: reason for name, reason in reasons.items() if reason}):
            click.echo(visible(f"{status.value}: {line}"))
    for note in (*control_notes([row]), *estimate_notes([row]), *web_notes([row])):
        click.echo(note)


def _label_lines(config: RunConfig) -> Iterator[str]:
    if config.origin is not None:
        yield f"imported from {config.origin}"
    if config.sweep is not None:
        yield f"part of {config.sweep}" + (f": {config.label}" if config.label else "")
    if config.run_tags:
        yield "tags: " + ", ".join(f"{name}={value}" for name, value in config.run_tags.items())
    if config.note:
        yield f"note: {config.note}"


def _show_task(store: RunStore, result: TaskResult) -> None:

    click.echo(visible(f"{_trial_name(result)}: {result.status.value} ({result.cause.value})"))
    if result.verdict is not None:
        _show_verdict(result.verdict)
    click.echo()
    metrics = result.metrics
    counts = (metrics.turns, "turn"), (metrics.steps, "step"), (metrics.compactions, "compaction")
    click.echo(", ".join(plural(count, noun) for count, noun in counts))
    if len(metrics.members) > 1:
        share = percent(metrics.active_share)
        resets = f", {plural(metrics.context_resets, 'context reset')}" if metrics.context_resets else ""
        click.echo(f"{metrics.agents} agents, {plural(metrics.messages, 'message')}, active time {share}{resets}\n")
        print_table(
            ["AGENT", "ROLE", "ACTIVE", "IDLE", "TURNS", "MESSAGES", "TOKENS", "COST"],
            [_member_cells(member) for member in metrics.members],
        )
        click.echo()
    click.echo(f"agent time {duration(result.agent_seconds)}, grading time {duration(result.grade_seconds)}")
    for usage in result.usage:
        requests = plural(usage.requests, "request")
        click.echo(f"{usage.model}: {requests}, {usage.tokens.total:,} tokens, {money(usage.cost_usd)}")
        if usage.estimated_requests:
            broken = plural(usage.estimated_requests, "request")
            click.echo(f"  {money(usage.estimated_usd)} of it is an upper estimate: {broken} without a whole response")
    if result.web is not None:
        click.echo(_web_line(result.web))
    for line in _altered_lines(result.altered or AlteredRequests()):
        click.echo(visible(line))
    for attempt in result.attempts:
        click.echo(visible(f"attempt {attempt.number}: {attempt.cause.value}: {attempt.detail}"))
        click.echo(f"  {store.folder / attempt.logs}")


def _altered_lines(altered: AlteredRequests) -> Iterator[str]:
    """What the gateway did not send as it was asked."""
    for model, count in altered.pinned.items():
        yield f"{plural(count, 'request')} to {model} sent to the run's model instead"
    for wanted, count in altered.refused.items():
        yield f"{plural(count, 'request')} refused: it cannot be metered or recorded: {wanted}"
    for wanted, count in altered.dropped.items():
        yield f"{plural(count, 'request')} sent with an unsupported parameter removed: {wanted}"


def _show_verdict(verdict: Verdict) -> None:
    click.echo(visible(verdict.reason))
    for deviation in verdict.deviations:
        click.echo(visible(f"deviation: {deviation}"))
    if verdict.controls is not None:
        click.echo(visible(_describe_controls(verdict.controls)))
    for finding in verdict.findings:
        click.echo(visible(f"finding: {finding.code}: {finding.path}: {finding.detail}"))
    if verdict.tests:
        click.echo()
        print_table(
            ["TEST", "PRE-PATCH", "POST-PATCH"],
            [[test.id, str(test.before or NO_VALUE), str(test.after or NO_VALUE)] for test in verdict.tests],
        )


def _describe_controls(controls: ControlSummary) -> str:
    given = plural(controls.pairs, "control pair") if controls.pairs else "not run"
    why = f" ({controls.reason})" if controls.reason else ""
    without = f"; without: {', '.join(controls.uncontrolled)}{why}" if controls.uncontrolled else ""
    return f"controls: {plural(controls.controlled, 'test')} with an altered version, {given}{without}"


def _web_line(web: WebUse) -> str:
    if web.allowed:
        refused = f"; {plural(web.refused, 'request')} refused: what they cost is not known" if web.refused else ""
        return f"the provider's tools were allowed; web searches: {web.searches:,}{refused}"
    return f"the provider's tools were not allowed: {plural(web.refused, 'request')} refused"


def _show_timeline(store: RunStore, result: TaskResult, *, as_json: bool) -> None:
    file = store.folder / result.attempts[-1].logs / TIMELINE_FILE if result.attempts else None
    if file is None or not file.is_file():
        raise UsageError(
            f"there is no timeline of {_trial_name(result)}", fix="only pods that started on their task have one"
        )
    timeline = read_record(file, Timeline)
    if as_json:
        print_json(timeline)
    else:
        click.echo(render_timeline(timeline, shutil.get_terminal_size((100, 24)).columns), nl=False)


def _trial_name(result: TaskResult) -> str:
    return result.task_id if result.trial == 1 else f"{result.task_id} #{result.trial}"


def _member_cells(member: Member) -> list[str]:
    return [
        member.name,
        member.role,
        duration(member.active_seconds),
        duration(member.idle_seconds),
        str(member.turns),
        str(member.messages),
        f"{sum(usage.tokens.total for usage in member.usage):,}",
        money(usage_cost(member.usage)),
    ]
