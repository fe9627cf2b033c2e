"""``proctor bench run``."""

import asyncio
from typing import TYPE_CHECKING, Any

import click

from proctor.cli.bench.options import AT_LEAST_ONE, load, selection, selection_options, source_options
from proctor.cli.bench.sitting import sit
from proctor.cli.output import print_table
from proctor.core.errors import UsageError

if TYPE_CHECKING:
    from proctor.core.run import RunConfig

DOLLARS = click.FloatRange(min=0, min_open=True)


def sitting_options(function: Any) -> Any:
    """Options that hold for one sitting, and may be another at the next."""
    for option in (
        click.option("--quiet", is_flag=True, help="No progress on stderr."),
        click.option("--own-login", is_flag=True, help="Let the agent's own login through, instead of adding a key."),
        click.option("--claude-bin", metavar="FILE", help="The agent's program, where it is not found by itself."),
        click.option("--max-cost", type=DOLLARS, metavar="USD", help="What the whole run may cost."),
    ):
        function = option(function)
    return function


@click.command()
@source_options
@click.option("--mode", type=click.Choice(["baseline"]), default="baseline", show_default=True)
@click.option(
    "--agent", default="claude_code", show_default=True, help="claude_code, command, oracle, nop, or a plugin's."
)
@click.option("--agent-command", metavar="WORDS", help="With --agent command: what to run, as in a shell.")
@click.option("--model", help="A model id or short name; script:FILE; replay:RUN.")
@click.option("--preset", default="empty", show_default=True, help="The preset of the agents' sandboxes.")
@selection_options
@click.option("--attempts", type=AT_LEAST_ONE, default=1, show_default=True, help="Answers wanted to each task.")
@click.option("--shuffle", type=int, metavar="SEED", help="Take the tasks in the order that this seed gives.")
@click.option("--concurrency", type=AT_LEAST_ONE, default=1, show_default=True, help="Agents at work at once.")
@click.option("--grade-concurrency", type=AT_LEAST_ONE, help="Graders at work at once; as many as CPUs by default.")
@click.option("--timeout", type=click.FloatRange(min=0, min_open=True), help="Seconds that an agent has for a task.")
@click.option("--max-turns", type=AT_LEAST_ONE, default=100, show_default=True)
@click.option("--max-cost-per-task", type=DOLLARS, metavar="USD", help="What one attempt at a task may cost.")
@click.option(
    "--network", type=click.Choice(["none", "model", "open"]), help="What agents reach, if not the benchmark's."
)
@click.option("--runner", type=click.Choice(["local", "docker"]), default="local", show_default=True)
@click.option("--docker-image", metavar="IMAGE", help="The image for --runner docker.")
@click.option("--isolation", type=click.Choice(["on", "off"]), default="on", help="off: no walls. Unsafe.")
@click.option("--dry-run", is_flag=True, help="Say what would be done, and what it can cost at most.")
@click.option("--json", "as_json", is_flag=True, help="Print the run's summary as JSON.")
@sitting_options
def command(bench: str | None, suite: str | None, **given: Any) -> int:
    """Let an agent answer the tasks of BENCH, or of --suite; grade and record every answer.

    Exits 0 when every task has a verdict, 12 when one ended in an error or the run had to stop before its end.
    """
    source = load(bench, suite)
    config = asyncio.run(_configure(source, given))
    if given["dry_run"]:
        _print_plan(config)
        return 0
    from proctor.results import new_run  # noqa: PLC0415 - the help page needs none of it

    store = new_run(source.name)
    config = _named(config, store.run_id)
    store.write_config(config)
    return sit(store, config, source, given)


def _named(config: "RunConfig", run_id: str) -> "RunConfig":
    import msgspec  # noqa: PLC0415

    return msgspec.structs.replace(config, run_id=run_id)


async def _configure(source: Any, given: dict[str, Any]) -> "RunConfig":
    import os  # noqa: PLC0415
    import shlex  # noqa: PLC0415

    from proctor.core.environment import EnvironmentSpec, Limits, Network  # noqa: PLC0415
    from proctor.core.run import Budget, Mode  # noqa: PLC0415
    from proctor.environments import provider  # noqa: PLC0415
    from proctor.runner.drive import agents  # noqa: PLC0415
    from proctor.runner.models import choose_model  # noqa: PLC0415
    from proctor.runner.plan import Asked, make_config  # noqa: PLC0415
    from proctor.runner.selection import select  # noqa: PLC0415

    chosen = selection(given)
    tasks = select(source.tasks(), chosen, known=[bad.task_id for bad in source.unusable()])
    if not tasks:
        raise UsageError("no task is chosen", fix="`proctor bench list` names the tasks")
    if given["model"]:
        choose_model(given["model"])
    asked = Asked(
        mode=Mode(given["mode"]),
        agent=given["agent"],
        command=tuple(shlex.split(given["agent_command"] or "")),
        model=given["model"],
        preset=given["preset"],
        runner=given["runner"],
        image=given["docker_image"],
        isolation=given["isolation"] == "on",
        samples=given["attempts"],
        concurrency=given["concurrency"],
        grade_concurrency=given["grade_concurrency"] or os.cpu_count() or 1,
        limits=Limits(wall_seconds=given["timeout"]),
        budget=Budget(run_usd=given["max_cost"], task_usd=given["max_cost_per_task"]),
        network=Network(given["network"]) if given["network"] else None,
        max_turns=given["max_turns"],
        variables={},
        shuffle=given["shuffle"],
    )
    rooms = provider(asked.runner, isolation=asked.isolation)
    try:
        environment = await rooms.digest(EnvironmentSpec(image=asked.image))
    finally:
        await rooms.close()
    draft = make_config(asked, source, tasks, run_id="", excluded=chosen.excluded, versions={}, environment=environment)
    return _with_versions(draft, agents(draft, given["claude_bin"])(tasks[0]).versions())


def _with_versions(config: "RunConfig", versions: dict[str, str]) -> "RunConfig":
    import msgspec  # noqa: PLC0415

    return msgspec.structs.replace(config, versions={**config.versions, **versions})


def _print_plan(config: "RunConfig") -> None:
    from proctor.runner.plan import cost_bound  # noqa: PLC0415

    bound = cost_bound(config)
    rows = [
        ["benchmark", config.benchmark],
        ["tasks", f"{len(config.tasks)}, {config.samples} answers each"],
        ["agent", f"{config.agent} ({', '.join(f'{name} {version}' for name, version in config.versions.items())})"],
        ["model", config.model or "none"],
        ["runner", f"{config.runner}{'' if config.isolation else ', no isolation'}"],
        ["at once", f"{config.concurrency} agents, {config.grade_concurrency} graders"],
        [
            "cost at most",
            f"${bound:.2f}" if bound is not None else "not bounded: give --max-cost or --max-cost-per-task",
        ],
    ]
    print_table(["WHAT", "VALUE"], rows)
