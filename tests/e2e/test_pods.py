"""`bench run --mode h2` through the command line, with the stand-ins of h2 and of Claude Code."""

import asyncio
import signal
from collections.abc import Mapping
from pathlib import Path

import pytest

from cli_world import CliWorld
from pods import REQUESTS, USAGE, one_file, talk_about, write_preset, write_script
from proctor.core.model_aliases import MODEL_ALIASES
from proctor.core.result import Tokens
from proctor.environments import local_unavailable_reason
from proctor.gateway import Prices
from proctor.gateway.prices import Usage
from real_claude import TODAYS_OPUS
from slow_tests import scaled

MODEL = "claude-sonnet-4-5"
PATIENT = 240.0


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Path]:
    folder = tmp_path_factory.mktemp("programs")
    return {name: one_file(name, folder) for name in ("h2", "claude")}


@pytest.fixture(autouse=True)
async def needs_environments() -> None:
    if (why := await local_unavailable_reason()) is not None:
        pytest.skip(why)


def pod_run(programs: Mapping[str, Path], bench: str, *more: object) -> tuple[object, ...]:
    files = ("--h2-bin", programs["h2"], "--claude-bin", programs["claude"])
    return ("bench", "run", bench, "--mode", "h2", *files, "--timeout", 120, *more)


def served(requests: int) -> tuple[Tokens, float]:
    """What a scripted model has served with so many answers, and its price."""
    tokens = Tokens(**USAGE)
    cost = Prices.load().cost(Usage(model=MODEL, tokens=tokens))
    assert cost is not None
    total = Tokens()
    for _ in range(requests):
        total += tokens
    return total, cost * requests


@pytest.mark.slow
async def test_a_pod_of_four_solves_a_task_of_core_mini_and_costs_what_the_model_served(
    cli_world: CliWorld, programs: Mapping[str, Path]
) -> None:
    script = write_script(cli_world.folder, talk_about("core-mini"))
    preset = write_preset(cli_world.folder, claude=True)
    few = ("--limit", 1, "--controls", 0)
    run = pod_run(programs, "core-mini", "--preset", preset, "--model", f"script:{script}", *few)
    done = await cli_world.start(*run, "--json").wait(PATIENT)
    assert (done.code, done.json["resolved"], done.json["tasks"]) == (0, 1, 1), done.stderr
    tokens, cost = served(sum(REQUESTS.values()))
    assert (done.json["tokens"], done.json["cost_usd"]) == (tokens.total, pytest.approx(cost, abs=1e-12))
    store = cli_world.store("core-mini/run-001")
    for result in store.results():
        metrics = result.metrics
        assert (metrics.agents, metrics.messages, metrics.turns, metrics.steps) == (4, 4, 9, 4)
        assert 0 < (metrics.active_share or 0) < 1
        assert {member.name: member.role for member in metrics.members} == {
            "concierge": "concierge",
            "coder-1": "coder",
            "coder-2": "coder",
            "reviewer": "reviewer",
        }
        for member in metrics.members:
            (usage,) = member.usage
            assert (usage.requests, usage.tokens) == (REQUESTS[member.name], served(REQUESTS[member.name])[0])
            assert (member.messages, member.turns) == (1, REQUESTS[member.name])
            assert member.active_seconds > 0
            assert member.idle_seconds > 0
        logs = store.folder / result.attempts[0].logs
        kept = {path.relative_to(logs / "h2").as_posix() for path in (logs / "h2").rglob("*") if path.is_file()}
        assert {f"sessions/{name}/events.jsonl" for name in REQUESTS} < kept
        assert sum(name.endswith(".jsonl") and "/projects/" in name for name in kept) == 4, "a transcript of each"
        assert "logs/session-activity.jsonl" in kept
    config = store.config()
    assert (config.mode, config.agent, config.pod_template) == ("h2", "h2_pod", "benchmark")
    assert {"h2", "claude", "pod"} <= config.versions.keys()
    shown = (await cli_world.run("bench", "show", "core-mini/run-001", "py_cache_0001", "--timeline")).stdout
    rows = {line.split()[0]: line for line in shown.splitlines()}
    assert "█" in rows["concierge"]
    assert rows["messages"].count("✉") >= 1
    table = (await cli_world.run("bench", "show", "core-mini/run-001", "py_cache_0001")).stdout
    assert "4 agents, 4 messages, active time" in table
    assert cli_world.leftovers() == []


TURN = [
    {"hook": "UserPromptSubmit"},
    {"run": 'h2 send coder-1 "$(cat "$H2_DIR/task.md")"; h2 send reviewer now'},
    {"hook": "Stop"},
]
ANSWER = [{"hook": "UserPromptSubmit"}, {"after": 0.2, "run": "echo right >answer.txt"}, {"hook": "Stop"}]


@pytest.mark.slow
@pytest.mark.parametrize("pods", scaled(2, 8))
async def test_pods_at_once_keep_to_themselves_and_leave_nothing(
    cli_world: CliWorld, programs: Mapping[str, Path], pods: int
) -> None:
    script = cli_world.folder / "nothing.yaml"
    script.write_text("default: [{text: nothing}]\n")
    preset = write_preset(
        cli_world.folder,
        turn=[{"hook": "UserPromptSubmit"}, {"hook": "Stop"}],
        agents={
            "concierge": {"turn": TURN},
            "coder-1": {"turn": ANSWER},
        },
    )
    run = pod_run(programs, "toy", "--preset", preset, "--model", f"script:{script}", "--concurrency", pods)
    done = await cli_world.start(*run, "--json", TOY_TASKS=pods).wait(PATIENT)
    assert (done.code, done.json["resolved"]) == (0, pods), done.stderr
    store = cli_world.store()
    for result in store.results():
        assert [str(attempt.cause) for attempt in result.attempts] == ["answered"]
        assert (result.metrics.agents, result.metrics.messages) == (4, 2)
        messages = store.folder / result.attempts[0].logs / "h2/messages"
        heard = {path.parent.name: path.read_text().strip() for path in messages.glob("*/*.md")}
        assert heard == {
            "concierge": f"task: {result.task_id}",
            "coder-1": f"task: {result.task_id}",
            "reviewer": "now",
        }
    assert cli_world.leftovers() == []


@pytest.mark.slow
async def test_a_sweep_holds_pods_of_several_sizes_against_nobody(
    cli_world: CliWorld, programs: Mapping[str, Path]
) -> None:
    (cli_world.folder / "nothing.yaml").write_text("default: [{text: nothing}]\n")
    write_preset(
        cli_world.folder,
        turn=[{"hook": "UserPromptSubmit"}, {"hook": "Stop"}],
        agents={"concierge": {"turn": TURN}, "coder-1": {"turn": ANSWER}},
    )
    (cli_world.folder / "pods.toml").write_text(
        """
        benchmark = "toy"
        limit = 1
        concurrency = 3
        timeout = 120
        preset = "./preset"
        baseline = "nobody"
        rule = "gain > 0"
        [grid]
        mode = ["h2"]
        model = ["script:nothing.yaml"]
        variables = { coders = [1, 2] }
        [[run]]
        name = "nobody"
        agent = "nop"
        preset = "empty"
        """
    )
    files = ("--h2-bin", programs["h2"], "--claude-bin", programs["claude"])
    done = await cli_world.start("bench", "sweep", "pods.toml", *files, "--json").wait(PATIENT)
    assert done.code == 0, done.stderr
    assert done.json["chosen"] == ["coders=1", "coders=2"]
    assert [(one["label"], one["row"]["resolved"], one["row"]["agents"]) for one in done.json["runs"]] == [
        ("coders=1", 1, 3),
        ("coders=2", 1, 4),
        ("nobody", 0, 0),
    ]
    assert cli_world.store("toy/run-002").config().variables == {"coders": "2"}
    assert cli_world.leftovers() == []


async def test_the_same_fields_are_there_of_a_lone_agent(cli_world: CliWorld) -> None:
    script = cli_world.folder / "words.yaml"
    script.write_text("default: [{text: right, usage: {input: 10, output: 5}}]\n")
    ask = (
        "python3 -c \"import json,os,urllib.request as u; r=u.Request(os.environ['ANTHROPIC_BASE_URL']+'/v1/messages',"
        "json.dumps({'model':'claude-sonnet-4-5','max_tokens':9,'messages':[{'role':'user','content':'x'}]}).encode(),"
        "{'content-type':'application/json'});"
        " open('answer.txt','w').write(json.load(u.urlopen(r))['content'][0]['text'])\""
    )
    run = ("bench", "run", "toy", "--agent", "command", "--agent-command", ask, "--model", f"script:{script}")
    done = await cli_world.run(*run, "--limit", 1, "--isolation", "off")
    assert done.code == 0, done.stderr
    (result,) = cli_world.store().results()
    (member,) = result.metrics.members
    assert (member.name, member.usage, member.turns) == ("command", result.usage, 1)
    assert result.usage[0].tokens.total == 15
    none = await cli_world.run("bench", "show", "run-001", "toy-0001", "--timeline")
    assert "there is no timeline of toy-0001" in none.stderr


BAD: dict[str, tuple[tuple[object, ...], str]] = {
    "no template": (("--preset", "haiku"), "the preset has no pod template 'benchmark' (it has none)"),
    "no such template": (("--pod-template", "duo"), "no pod template 'duo' (it has benchmark)"),
    "no such file": (("--pod-template", "./duo.yaml"), "cannot read the pod template"),
    "no such variable": (("--var", "n=1"), "the pod template benchmark has no variable 'n'; it takes coders, model"),
    "ours": (("--var", "working_dir=/"), "Proctor sets working_dir by itself"),
    "no value": (("--var", "coders"), "--var must be of the form NAME=VALUE, not 'coders'"),
    "another agent": (("--agent", "claude_code"), "--mode h2 is not for the agent claude_code"),
    "no h2": (("--h2-bin", "/nowhere/h2"), "/nowhere/h2: this is not an executable program"),
    "no network": (("--network", "none"), "cannot reach a model without network"),
}


@pytest.mark.parametrize(("words", "sentence"), BAD.values(), ids=BAD.keys())
async def test_a_pod_that_cannot_be_run_is_one_sentence_and_no_run(
    cli_world: CliWorld, programs: Mapping[str, Path], words: tuple[object, ...], sentence: str
) -> None:
    done = await cli_world.run(*pod_run(programs, "toy", "--model", "sonnet", *words), ANTHROPIC_API_KEY="sk-dummy-key")
    assert done.code in {2, 12}
    assert sentence in done.stderr
    assert done.stderr.count("\n") == 1
    assert list(cli_world.results.rglob("*.json")) == []


@pytest.mark.parametrize(("version", "word"), [("v0.2.0", "too old"), ("v0.4.0-next", "too new")])
async def test_an_h2_of_another_time_is_named_before_anything_is_paid(
    cli_world: CliWorld, programs: Mapping[str, Path], version: str, word: str
) -> None:
    other = cli_world.folder / "h2"
    other.write_text(f"#!/bin/sh\necho {version}\n")
    other.chmod(0o755)
    run = pod_run({**programs, "h2": other}, "toy", "--model", "sonnet")
    done = await cli_world.run(*run, ANTHROPIC_API_KEY="sk-dummy-key")
    assert done.code == 12
    assert f"h2 {version} is {word}" in done.stderr
    assert list(cli_world.results.rglob("*.json")) == []


async def test_the_time_that_a_pod_has_to_start_is_an_option(cli_world: CliWorld, programs: Mapping[str, Path]) -> None:
    preset = write_preset(cli_world.folder, ready_seconds=None)
    script = cli_world.folder / "nothing.yaml"
    script.write_text("default: [{text: nothing}]\n")
    more = ("--preset", preset, "--model", f"script:{script}", "--limit", 1, "--retries", 0, "--pod-start-timeout", 1.5)
    done = await cli_world.start(*pod_run(programs, "toy", *more)).wait(PATIENT)
    assert done.code == 12
    assert "it is still starting 1.5 s after its launch (--pod-start-timeout)" in done.stderr
    (result,) = cli_world.store().results()
    assert [str(attempt.cause) for attempt in result.attempts] == ["environment_failed"]


SCRIPTED: dict[str, tuple[tuple[object, ...], str]] = {
    "by default": (
        ("--preset", "opus"),
        "scripted model, priced as claude-sonnet-4-5; for the preset's opus, give --var model=opus",
    ),
    "of the preset": (("--var", "model=opus"), f"scripted model, priced as {MODEL_ALIASES['opus']}"),
    "of today": (
        ("--var", f"model={TODAYS_OPUS}"),
        f"scripted model, priced as {TODAYS_OPUS}; for the preset's opus, give --var model=opus",
    ),
    "without a price": (
        ("--var", "model=mine-1"),
        "scripted model, as mine-1, which has no known price; for the preset's opus, give --var model=opus",
    ),
    "of roles": (
        ("--pod-template", "./solo.yaml"),
        "scripted models of the pod's roles, each with its own price",
    ),
}


@pytest.mark.parametrize(("words", "sentence"), SCRIPTED.values(), ids=SCRIPTED.keys())
async def test_the_model_that_prices_a_script_is_named(
    cli_world: CliWorld, programs: Mapping[str, Path], words: tuple[object, ...], sentence: str
) -> None:
    (cli_world.folder / "nothing.yaml").write_text("default: [{text: nothing}]\n")
    (cli_world.folder / "solo.yaml").write_text("agents:\n  - name: concierge\n    role: concierge\n")
    done = await cli_world.run(*pod_run(programs, "toy", "--model", "script:nothing.yaml", "--dry-run", *words))
    assert done.code == 0, done.stderr
    assert done.stderr == f"{sentence}\n"


async def test_nothing_is_said_about_models_where_a_preset_has_none(cli_world: CliWorld) -> None:
    (cli_world.folder / "nothing.yaml").write_text("default: [{text: nothing}]\n")
    dry = ("bench", "run", "toy", "--agent", "command", "--agent-command", "true", "--dry-run")
    done = await cli_world.run(*dry, "--model", "script:nothing.yaml")
    assert (done.code, done.stderr) == (0, "")
    done = await cli_world.run(*dry, "--model", "script:nothing.yaml", "--preset", "opus")
    assert "priced as claude-sonnet-4-5; the preset's opus is the model of pods" in done.stderr
    done = await cli_world.run(*dry, "--model", "script:nothing.yaml", "--pod-start-timeout", 100)
    assert (done.code, "--pod-start-timeout is for pods" in done.stderr) == (2, True)


async def test_pods_are_asked_for_by_mode(cli_world: CliWorld) -> None:
    done = await cli_world.run("bench", "run", "toy", "--agent", "h2_pod", "--model", "sonnet")
    assert (done.code, "give --mode h2" in done.stderr) == (2, True)
    done = await cli_world.run("bench", "run", "toy", "--var", "coders=1", "--model", "sonnet")
    assert (done.code, "--var is for pods" in done.stderr) == (2, True)


async def test_a_run_whose_pod_has_changed_is_not_gone_on_with(
    cli_world: CliWorld, programs: Mapping[str, Path]
) -> None:
    template = cli_world.folder / "solo.yaml"
    template.write_text("agents:\n  - name: concierge\n    role: concierge\n")
    preset = write_preset(cli_world.folder, turn=[])
    script = cli_world.folder / "nothing.yaml"
    script.write_text("default: [{text: nothing}]\n")
    more = ("--preset", preset, "--pod-template", template, "--model", f"script:{script}", "--limit", 1)
    started = cli_world.start(*pod_run(programs, "toy", *more))
    while not (cli_world.results / "toy/run-001/config.json").exists():
        assert started.poll() is None, started.stderr.read_text()
        await asyncio.sleep(0.1)
    started.signal(signal.SIGINT)
    await started.wait(PATIENT)
    template.write_text("agents:\n  - name: concierge\n    role: coder\n")
    done = await cli_world.run(
        "bench", "resume", "run-001", "--h2-bin", programs["h2"], "--claude-bin", programs["claude"]
    )
    assert done.code == 20
    assert "the pod has changed since the run was started" in done.stderr
