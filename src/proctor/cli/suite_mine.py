"""``proctor suite mine``: a suite from a repository's history."""

import asyncio
import os
import shlex
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any, Final, TypeVar

import click

from proctor.cli.mining_progress import MiningProgress
from proctor.cli.output import log, print_json, print_table
from proctor.core.errors import Interrupted, UsageError
from proctor.core.formatting import money, plural, truncate_line
from proctor.mining.settings import MineOptions

_Command = TypeVar("_Command", bound=Callable[..., Any])
_DAY: Final = click.DateTime(["%Y-%m-%d"])
_FILE: Final = click.Path(path_type=Path)
_TOKEN_VARIABLES: Final = ("PROCTOR_ISSUES_TOKEN", "GITHUB_TOKEN", "GITLAB_TOKEN")


def _size(_: click.Context, __: click.Parameter, value: str | None) -> int | None:
    from proctor.core.options import InvalidValue, parse_size

    try:
        return None if value is None else parse_size(value)
    except InvalidValue as error:
        raise click.BadParameter(str(error)) from error


def _day(_: click.Context, __: click.Parameter, value: datetime | None) -> str | None:
    return None if value is None else value.date().isoformat()


def _count(flag: str, text: str, *, least: int = 1) -> Callable[[_Command], _Command]:
    """An option that is a number, with the default of `MineOptions`."""
    default = getattr(MineOptions(), flag.removeprefix("--").replace("-", "_"))
    return click.option(flag, metavar="N", type=click.IntRange(least), default=default, show_default=True, help=text)


@click.command(short_help="Make a suite from a repository's history.")
@click.argument("repository")
@click.option("--out", type=_FILE, help="The suite's folder. [default: suites/NAME]")
@click.option("--since", type=_DAY, callback=_day, help="Only changes from this day on.")
@click.option("--until", type=_DAY, callback=_day, help="Only changes up to this day.")
@click.option("--branch", metavar="NAME", help="The branch whose main line is mined. [default: the current one]")
@click.option("--commit", "commits", metavar="ID", multiple=True, help="Only this commit; may be repeated.")
@click.option("--limit", metavar="N", type=click.IntRange(1), help="Stop when there are N tasks.")
@click.option("--only", metavar="PATTERN", multiple=True, help="Only changes that touch such a path.")
@click.option("--exclude", "without", metavar="PATTERN", multiple=True, help="No changes that touch such a path.")
@click.option("--without", "former_exclude", multiple=True, hidden=True)
@click.option(
    "--exclude-author", "exclude_authors", metavar="TEXT", multiple=True, help="No changes by this name or address."
)
@_count("--max-files", "Maximum changed source files.")
@_count("--max-lines", "Maximum changed source lines.")
@_count("--min-lines", "Minimum changed source lines.", least=0)
@_count("--runs", "Test runs before and after.")
@_count("--controls", "Number of control pairs that validate each task.", least=0)
@click.option("--fair", is_flag=True, help="Keep only tasks without flags.")
@click.option("--settings", type=_FILE, help="The repository's settings. [default: proctor-mine.toml in it, or here]")
@click.option("--issues", type=_FILE, metavar="FILE", help="An export of the repository's issues: JSON lines.")
@click.option(
    "--issues-api", metavar="URL", help="The repository in its forge's API; a token is read from PROCTOR_ISSUES_TOKEN."
)
@click.option("--write-issues", metavar="MODEL", help="Let a model write the instructions from the failing tests.")
@click.option("--setup-agent", metavar="NAME", help="Agent that writes proctor-mine.toml if setup fails.")
@click.option("--model", metavar="MODEL", help="With --setup-agent: its model; as in `bench run`.")
@click.option("--agent-command", metavar="COMMAND", help="With --setup-agent command: the command line to run.")
@click.option("--max-cost", metavar="USD", type=click.FloatRange(0, min_open=True), help="Total model cost limit.")
@click.option("--name", metavar="NAME", help="The suite's name. [default: the repository's]")
@click.option(
    "--jobs", metavar="N", type=click.IntRange(1), default=1, show_default=True, help="Candidates at the same time."
)
@click.option(
    "--runner",
    metavar="NAME",
    default="local",
    show_default=True,
    help="The provider of environments: local or docker.",
)
@click.option(
    "--disk", metavar="SIZE", callback=_size, help="Disk limit of the suite and its environments, such as 20GB."
)
@click.option("--update", is_flag=True, help="Add what is new since the suite was mined.")
@click.option("--explain", is_flag=True, help="List every commit with its outcome, without running anything.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option("--quiet", is_flag=True, help="No progress on stderr.")
def command(**given: Any) -> int:
    """Make a suite from the history of REPOSITORY, a folder or a URL: changes that came with tests become tasks.

    Each task is validated before it is kept: its tests fail without the change and pass with it, every time; they
    need no network; the solution is nowhere in the workspace; altered tests fail. The same command resumes what was
    interrupted.
    """
    from proctor.mining.history import open_history

    given["without"] += given.pop("former_exclude")
    options = MineOptions(**{name: given[name] for name in MineOptions.__struct_fields__})
    if options.since and options.until and options.since > options.until:
        raise UsageError("--since is after --until", fix="give an earlier day")
    _check_models(given)
    with open_history(given["repository"], branch=options.branch, name=given["name"]) as history:
        if given["explain"]:
            return _explain(history, options, given)
        return asyncio.run(_mine(history, options, given))


def _check_models(given: dict[str, Any]) -> None:
    """Refuse options of an agent or a model that nothing asks for, and an agent that there is not."""
    agent = given["setup_agent"]
    if agent is not None:
        from proctor.agents import agent_class

        agent_class(agent)
    asked = {"model": agent, "agent_command": agent, "max_cost": agent or given["write_issues"]}
    for name, used in asked.items():
        if given[name] is not None and not used:
            raise UsageError(
                f"--{name.replace('_', '-')} is for --setup-agent{' or --write-issues' if name == 'max_cost' else ''}",
                fix="give that too, or leave this out",
            )


def _settings(history: Any, given: dict[str, Any]) -> Any:
    from proctor.mining.settings import SETTINGS_FILE, MineSettings, parse_settings, read_settings

    if given["settings"] is not None:
        return read_settings(given["settings"])
    local = Path(given["repository"]) / SETTINGS_FILE
    if local.is_file():
        return read_settings(local)
    stored = history.read(history.head, SETTINGS_FILE)
    return MineSettings() if stored is None else parse_settings(stored.decode("utf-8", "replace"), where=SETTINGS_FILE)


def _explain(history: Any, options: Any, given: dict[str, Any]) -> int:
    from proctor.mining.candidates import Stage
    from proctor.mining.journal import MiningJournal
    from proctor.mining.miner import list_candidates, mined_commit, passed_over_commit
    from proctor.mining.report import MiningReport, funnel
    from proctor.mining.task_maker import CandidateResult

    candidates, others = list_candidates(history, options, _settings(history, given))
    out = _out(history, given)
    known = MiningJournal(out).results() if out.is_dir() else {}
    commits = [passed_over_commit(change, passed) for change, passed in others]
    for change in (candidate.change for candidate in candidates):
        untried = CandidateResult(
            commit=change.commit, stage=Stage.SETUP, code="untried", reason="a candidate that was not tried yet"
        )
        commits.append(mined_commit(change, known.get(change.commit, untried)))
    commits.sort(key=lambda one: (one.day, one.commit), reverse=True)
    if given["as_json"]:
        print_json(
            MiningReport(suite=history.name, repository=history.address, head=history.head, commits=tuple(commits))
        )
        return 0
    print_table(
        ["COMMIT", "DAY", "OUTCOME", "WHY", "SUBJECT"],
        [
            [
                one.commit[:10],
                one.day,
                one.code or one.stage.value,
                one.task_id or one.reason,
                truncate_line(one.subject, 60),
            ]
            for one in commits
        ],
    )
    click.echo("")
    print_funnel(funnel(commits))
    return 0


def print_funnel(steps: Any) -> None:
    """The stages of mining with how many commits were left after each, and why the others left."""
    rows = []
    for step in steps:
        why = ", ".join(f"{count} {code}" for code, count in step.dropped.items())
        rows.append([step.stage, str(step.left), why])
    print_table(["STAGE", "LEFT", "DROPPED"], rows)


def _out(history: Any, given: dict[str, Any]) -> Path:
    out: Path = given["out"] or Path("suites") / history.name
    return out


async def _mine(history: Any, options: Any, given: dict[str, Any]) -> int:
    from contextlib import AsyncExitStack

    from proctor.environments import provider as find_provider
    from proctor.mining.miner import MineSession, mine
    from proctor.mining.report import funnel

    out = _out(history, given)
    progress = MiningProgress(quiet=given["quiet"])
    async with AsyncExitStack() as stack:
        provider = find_provider(given["runner"])
        stack.push_async_callback(provider.close)
        settings = _settings(history, given)
        if given["setup_agent"] is not None:
            settings = await _settings_by_agent(history, options, settings, given, provider)
        session = MineSession(
            history=history,
            provider=provider,
            out=out,
            options=options,
            settings=settings,
            repository=history.address,
            jobs=given["jobs"],
            disk=given["disk"],
            update=given["update"],
            look_up=_issues(given),
            writer=await _open_writer(stack, given),
            on_start=lambda candidate: progress.started(candidate.change.commit[:10]),
            on_result=lambda candidate, result: progress.done(candidate.change.commit[:10], result),
        )
        try:
            with progress:
                report = await mine(session)
        except asyncio.CancelledError:
            fix = "the same command continues with the next candidate"
            raise Interrupted("mining was interrupted", fix=fix) from None
        if session.writer is not None:
            log(f"instructions by {given['write_issues']}: {money(session.writer.cost)}")
    if given["as_json"]:
        print_json(report)
        return 0
    print_funnel(funnel(report.commits))
    tasks = sum(one.task_id is not None for one in report.commits)
    more = f"; {plural(report.unseen, 'older commit')} not tried" if report.unseen else ""
    click.echo(f"\n{out}: {plural(tasks, 'task')}{more}")
    if tasks:
        click.echo(f"next: proctor bench validate --suite {out}")
    else:
        click.echo("no change became a task; --explain lists every commit with the reason")
    return 0


async def _open_writer(stack: Any, given: dict[str, Any]) -> Any:
    """What lets a model write instructions, within the budget; None where it is not asked for."""
    if given["write_issues"] is None:
        return None
    from proctor.core.request import RunRequest
    from proctor.gateway import Gateway, RunBudget
    from proctor.mining.issue_writer import IssueWriter
    from proctor.runner.models import check_priced, load_prices, make_backend, make_model_access, parse_model

    request = RunRequest(model=given["write_issues"], max_cost=given["max_cost"])
    choice = parse_model(given["write_issues"])
    prices = load_prices(None)
    check_priced(choice, request, prices)
    is_claude = choice.kind != "provider" or (choice.provider is None and choice.model.startswith("claude"))
    dialect = "messages" if is_claude else "chat"
    backend = make_backend(choice, make_model_access(request, os.environ))
    budget = RunBudget(given["max_cost"])
    gateway = await stack.enter_async_context(Gateway(backend, prices=prices, budget=budget))
    return IssueWriter(gateway, await gateway.listen(), choice.model, dialect=dialect)


async def _settings_by_agent(history: Any, options: Any, settings: Any, given: dict[str, Any], provider: Any) -> Any:
    """Settings that an agent writes, where the first candidates cannot be set up without; they are kept beside the
    suite, so that it is asked once.
    """
    import tempfile

    from proctor.api import run_async
    from proctor.mining.journal import STATE_FOLDER
    from proctor.mining.miner import setup_failures
    from proctor.mining.settings import SETTINGS_FILE, parse_settings, read_settings
    from proctor.mining.setup_file import SetupFileBenchmark

    kept = _out(history, given).absolute() / STATE_FOLDER / SETTINGS_FILE
    if kept.is_file():
        return read_settings(kept)
    with tempfile.TemporaryDirectory(prefix="proctor-setup-") as folder:
        failures = await setup_failures(history, provider, Path(folder) / "drafts", options, settings)
        if not failures:
            log("no agent is asked: the first candidates can be set up, or there are none")
            return settings
        history.write_tree(history.head, Path(folder) / "tree")
        (Path(folder) / "tree" / SETTINGS_FILE).unlink(missing_ok=True)  # it did not do
        benchmark = SetupFileBenchmark(Path(folder) / "tree", failures)
        words = shlex.split(given["agent_command"]) if given["agent_command"] else None
        chosen = {"model": given["model"], "max_cost": given["max_cost"], "command": words}
        ended = await run_async(
            benchmark,
            agent=given["setup_agent"],
            **{name: value for name, value in chosen.items() if value is not None},
        )
    log(f"{given['setup_agent']} was asked for {SETTINGS_FILE}: {ended.folder}")
    if benchmark.text is None:
        raise UsageError(
            f"{given['setup_agent']} wrote no valid {SETTINGS_FILE}", where=ended.folder, fix="write it yourself"
        )
    kept.parent.mkdir(parents=True, exist_ok=True)
    kept.write_text(benchmark.text, encoding="utf-8")
    log(f"its settings are in {kept}")
    return parse_settings(benchmark.text, where=kept)


def _issues(given: dict[str, Any]) -> Any:
    from proctor.mining.issues import ForgeIssues, read_issues

    if given["issues"] is not None and given["issues_api"] is not None:
        raise UsageError("issues come from a file or from the forge", fix="give --issues or --issues-api, not both")
    if given["issues"] is not None:
        return read_issues(given["issues"])
    if given["issues_api"] is not None:
        token = next((os.environ[name] for name in _TOKEN_VARIABLES if os.environ.get(name)), None)
        return ForgeIssues(given["issues_api"], token)
    return None
