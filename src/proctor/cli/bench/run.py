"""``proctor bench run``."""

import asyncio
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from proctor.cli.bench.options import (
    AT_LEAST_ONE,
    POSITIVE_NUMBER,
    check_environment_options,
    docker_image_option,
    image_map_option,
    isolation_option,
    load_benchmark,
    make_selection,
    read_image_map,
    runner_option,
    selection_options,
    source_options,
)
from proctor.cli.bench.session import (
    cost_bound_text,
    make_model_access,
    make_pull_reporter,
    run_and_report,
    session_options,
)
from proctor.cli.output import log, print_json, print_table
from proctor.core.errors import InfrastructureError, UsageError

if TYPE_CHECKING:
    from proctor.core.agent_options import AgentOptions
    from proctor.core.run import RunConfig
    from proctor.runner.request import RunRequest


@click.command()
@source_options
@click.option(
    "--mode",
    type=click.Choice(["baseline", "h2"]),
    default="baseline",
    show_default=True,
    help="One agent, or a pod of agents that h2 runs.",
)
@click.option(
    "--agent",
    metavar="NAME",
    help="claude_code, command, oracle, nop, or a plugin's. [default: claude_code; with --mode h2: h2_pod]",
)
@click.option(
    "--agent-command", metavar="WORDS", help="With --agent command: what to run in the room; words as a shell has them."
)
@click.option(
    "--system-prompt", metavar="TEXT|@FILE", help="What the agent is told instead of its program's own system prompt."
)
@click.option("--append-system-prompt", metavar="TEXT|@FILE", help="What it is told behind its own system prompt.")
@click.option(
    "--allowed-tools", metavar="LIST", help="The tools that the model is offered, as Bash,Read. [default: all]"
)
@click.option(
    "--agent-env",
    multiple=True,
    metavar="NAME=VALUE",
    help="A variable for the agent's program; may be repeated. Written down with the run: no secrets.",
)
@click.option("--model", metavar="MODEL", help="A model id or short name; script:FILE; replay:RUN.")
@click.option(
    "--preset",
    metavar="P",
    help="The preset of the agents' sandboxes: a name, or a folder. [default: empty; with --mode h2: opus]",
)
@click.option(
    "--pod-template",
    metavar="NAME|FILE",
    help="With --mode h2: a pod template of the preset, or a file. [default: benchmark]",
)
@click.option(
    "--var",
    "variables",
    multiple=True,
    metavar="K=V",
    help="With --mode h2: a variable of the template; may be repeated.",
)
@selection_options
@click.option(
    "--attempts", type=AT_LEAST_ONE, metavar="K", default=1, show_default=True, help="Answers wanted to each task."
)
@click.option("--shuffle", type=int, metavar="SEED", help="Take the tasks in the order that this seed gives.")
@click.option(
    "--concurrency",
    "--parallel",
    "concurrency",
    type=AT_LEAST_ONE,
    metavar="N",
    default=1,
    show_default=True,
    help="Agents at work at once.",
)
@click.option(
    "--grade-concurrency", type=AT_LEAST_ONE, metavar="N", help="Graders at work at once. [default: as many as CPUs]"
)
@click.option(
    "--timeout",
    type=POSITIVE_NUMBER,
    metavar="SECONDS",
    help="What an agent has for a task, instead of the benchmark's own.",
)
@click.option(
    "--max-turns",
    type=AT_LEAST_ONE,
    metavar="N",
    help="Requests that an agent may make for a task; not for pods. [default: 100]",
)
@click.option("--max-cost-per-task", type=POSITIVE_NUMBER, metavar="USD", help="What one answer to a task may cost.")
@click.option(
    "--network",
    type=click.Choice(["none", "model", "open"]),
    help="What agents reach, instead of what the benchmark says.",
)
@runner_option
@docker_image_option
@image_map_option
@isolation_option
@click.option("--dry-run", is_flag=True, help="Say what would be done, and what it can cost at most.")
@session_options
def command(bench: str | None, suite: str | None, split: str | None, **given: Any) -> int:
    """Let an agent answer the tasks of BENCH, or of --suite; grade and record every answer.

    Exits 0 when every task has a verdict, 12 when one ended in an error or the run had to stop before its end.
    """
    from proctor.runner.selection import select_tasks  # noqa: PLC0415 - the help page needs none of it
    from proctor.runner.start import check_access, configure, create_run, run_missing_requirements  # noqa: PLC0415

    source, chosen, asked = load_benchmark(bench, suite, split), make_selection(given), _run_request(given)
    tasks = select_tasks(source, chosen).tasks
    config = asyncio.run(
        configure(
            asked,
            source,
            tasks,
            excluded=chosen.excluded,
            program=given["claude_bin"],
            h2_program=given["h2_bin"],
            on_pull=make_pull_reporter(given),
            prices=given["prices"],
            pull=not given["dry_run"],
        )
    )
    access = make_model_access(given)
    _report_missing_requirements(asyncio.run(run_missing_requirements(config, source, tasks)), len(tasks))
    if given["dry_run"]:
        _print_plan(config, as_json=given["as_json"])
        return 0
    check_access(config, access, prices=given["prices"])
    return run_and_report(create_run(config), source, given, access)


def _report_missing_requirements(missing: dict[str, str], selected: int) -> None:
    """Say which tasks cannot be run here; refuse a run of which none can."""
    by_reason: dict[str, list[str]] = {}
    for task_id, why in missing.items():
        by_reason.setdefault(why.removeprefix(f"{task_id}: "), []).append(task_id)
    lines = [f"{ids[0] if len(ids) == 1 else f'{len(ids)} tasks'}: {why}" for why, ids in by_reason.items()]
    if missing and len(missing) == selected:
        raise InfrastructureError("no task of those chosen can be run on this machine", details=lines)
    for line in lines:
        log(f"cannot be run here: {line}")


def _run_request(given: dict[str, Any]) -> "RunRequest":
    from proctor.core.agent_options import AgentOptions, read_prompt, read_tools  # noqa: PLC0415
    from proctor.core.environment import Limits, Network  # noqa: PLC0415
    from proctor.core.run import Budget, Mode  # noqa: PLC0415
    from proctor.runner.request import DEFAULT_AGENTS, DEFAULT_PRESETS, RunRequest  # noqa: PLC0415

    mode = Mode(given["mode"])
    agent = given["agent"] or DEFAULT_AGENTS[mode]
    if given["agent_command"] is not None and agent != "command":
        raise UsageError("--agent-command is for --agent command", fix="give that too, or leave the command out")
    if given["h2_bin"] is not None and mode is not Mode.H2:
        raise UsageError("--h2-bin is for pods", fix="give --mode h2 too, or leave it out")
    check_environment_options(given)
    try:
        words = tuple(shlex.split(given["agent_command"] or ""))
    except ValueError as error:
        raise UsageError(f"--agent-command cannot be read as a shell would: {error}") from error
    own, behind = given["system_prompt"], given["append_system_prompt"]
    return RunRequest(
        mode=mode,
        agent=agent,
        command=words,
        agent_options=AgentOptions(
            system_prompt=own and read_prompt(own, Path.cwd()),
            append_system_prompt=behind and read_prompt(behind, Path.cwd()),
            allowed_tools=() if given["allowed_tools"] is None else read_tools(given["allowed_tools"]),
            env=_parse_pairs("--agent-env", given["agent_env"]),
        ),
        model=given["model"],
        preset=given["preset"] or DEFAULT_PRESETS[mode],
        pod_template=given["pod_template"],
        variables=_parse_pairs("--var", given["variables"]),
        runner=given["runner"],
        image=given["docker_image"],
        image_map=read_image_map(given["image_map"]),
        isolation=given["isolation"] == "on",
        trials=given["attempts"],
        concurrency=given["concurrency"],
        grade_concurrency=given["grade_concurrency"],
        limits=Limits(wall_seconds=given["timeout"]),
        budget=Budget(run_usd=given["max_cost"], task_usd=given["max_cost_per_task"]),
        network=Network(given["network"]) if given["network"] else None,
        max_turns=given["max_turns"],
        shuffle=given["shuffle"],
    )


def _parse_pairs(option: str, pairs: tuple[str, ...]) -> dict[str, str]:
    found = {}
    for pair in pairs:
        name, separator, value = pair.partition("=")
        if not separator or not name:
            raise UsageError(f"{option} {pair} is not of the form NAME=VALUE")
        found[name] = value
    return found


def _describe_agent_options(agent_options: "AgentOptions") -> list[str]:
    told = []
    if agent_options.system_prompt is not None:
        told.append(f"a system prompt of {len(agent_options.system_prompt):,} characters")
    if agent_options.append_system_prompt is not None:
        told.append(f"{len(agent_options.append_system_prompt):,} characters behind its system prompt")
    if agent_options.allowed_tools:
        told.append(f"to use {' '.join(agent_options.allowed_tools)}")
    return told + [f"{name}={value}" for name, value in agent_options.env.items()]


def _print_plan(config: "RunConfig", *, as_json: bool) -> None:
    from proctor.core.agent_options import AgentOptions  # noqa: PLC0415
    from proctor.runner.request import cost_bound  # noqa: PLC0415

    bound = cost_bound(config)
    if as_json:
        from proctor.report.cli_records import RunPlan  # noqa: PLC0415

        print_json(RunPlan(config=config, trials=len(config.tasks) * config.trials, max_cost_usd=bound))
        return
    answers = f"{len(config.tasks)}, {config.trials} answer{'s' if config.trials > 1 else ''} each"
    rows = [
        ["benchmark", f"{config.benchmark} ({config.source})"],
        ["tasks", answers],
        ["order", " ".join(config.tasks[:5]) + (" …" if len(config.tasks) > 5 else "")],  # noqa: PLR2004 - a few
        ["agent", f"{config.agent} ({', '.join(f'{name} {version}' for name, version in config.versions.items())})"],
        ["model", config.model or "none"],
        *(
            [["agent is told", ", ".join(_describe_agent_options(config.agent_options))]]
            if config.agent_options != AgentOptions()
            else []
        ),
        ["runner", f"{config.runner}{'' if config.isolation else ', no isolation'}"],
        ["network", config.network.value if config.network else "as the benchmark says"],
        ["at once", f"{config.concurrency} agents, {config.grade_concurrency} graders"],
        ["cost at most", cost_bound_text(bound, options="--max-cost or --max-cost-per-task")],
    ]
    print_table(["WHAT", "VALUE"], rows)
