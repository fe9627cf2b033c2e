"""`bench run`, `resume` and `show` through the command line, option by option."""

import asyncio
import json

import msgspec
import pytest

from cli_world import CliWorld, access, toy_run
from proctor.core.agent_options import AgentOptions
from proctor.core.record import to_json
from proctor.environments import local_unavailable_reason
from toy_provider import KEY, failing, toy_provider
from waiting import eventually, limits

ORACLE = ("bench", "run", "toy", "--agent", "oracle", "--isolation", "off")
NOP = ("bench", "run", "toy", "--agent", "nop", "--isolation", "off")


async def test_a_run_is_answered_graded_recorded_and_leaves_nothing_behind(cli_world: CliWorld) -> None:
    async with toy_provider() as provider:
        provider.last_words["toy-0002"] = "wrong"
        done = await cli_world.run(*toy_run(provider, "--concurrency", 2), **access(provider))
    assert done.code == 0, done
    assert (
        done.stdout == "toy/run-001: 2 of 3 graded trials resolved, 0 errors, 0 skipped; 9,900 tokens, cost $0.0405\n"
    )
    assert min(done.stderr.splitlines()).startswith("[1/3] toy-000")
    assert "toy-0002 unresolved (tests_failed)" in done.stderr
    folder = cli_world.store().folder
    assert sorted(path.name for path in folder.iterdir() if path.name[0] != ".") == [
        *("config.json", "journal.jsonl", "logs", "summary.json", "trials")
    ]
    logs = {path.relative_to(folder / "logs").as_posix() for path in (folder / "logs").rglob("*")}
    assert {
        f"toy-0001/attempt-1/{name}"
        for name in ("attempt.json", "cassette.jsonl", "graded.json", "grading", "stdout.log", "submission.diff")
    } <= logs
    assert cli_world.leftovers() == []


async def test_the_oracle_solves_everything_and_nobody_nothing_without_a_model(cli_world: CliWorld) -> None:
    oracle, nop = await cli_world.run(*ORACLE, "--json"), await cli_world.run(*NOP, "--json")
    assert (oracle.json["resolved"], oracle.json["cost_usd"]) == (3, 0)
    assert (nop.json["resolved"], nop.json["unresolved"]) == (0, 3)
    assert list(cli_world.store().folder.rglob("cassette.jsonl")) == []


async def test_attempts_are_several_answers_to_each_task_first_ones_first(cli_world: CliWorld) -> None:
    done = await cli_world.run(*NOP, "--attempts", 2, "--json")
    assert done.json["tasks"] == 6
    assert "[1/6] toy-0001 #1 unresolved" in done.stderr
    assert [line.split()[1:3] for line in done.stderr.splitlines()][:4] == [
        ["toy-0001", "#1"],
        ["toy-0002", "#1"],
        ["toy-0003", "#1"],
        ["toy-0001", "#2"],
    ]
    assert sorted((one.task_id, one.trial) for one in cli_world.store().results()) == [
        (f"toy-000{task}", sample) for task in (1, 2, 3) for sample in (1, 2)
    ]
    show = await cli_world.run("bench", "show", "run-001", "toy-0002", "--attempt", 2)
    assert show.stdout.startswith("toy-0002 #2: unresolved (tests_failed)")


async def test_tasks_are_chosen_left_out_limited_and_shuffled_by_a_seed(cli_world: CliWorld) -> None:
    (cli_world.folder / "bad.txt").write_text("toy-0002  # flaky\n")
    choice = ("--exclude", "bad.txt", "--shuffle", 3, "--limit", 4)
    orders = []
    for seed in (3, 3, 4):
        done = await cli_world.run(*NOP, *choice[:3], seed, *choice[4:], "--dry-run", "--json", TOY_TASKS=8)
        orders.append(done.json["config"]["tasks"])
    assert orders[0] == orders[1] != orders[2]
    assert sorted(orders[0]) == ["toy-0001", "toy-0003", "toy-0004", "toy-0005"]
    assert orders[0] != sorted(orders[0])
    done = await cli_world.run(*NOP, *choice, TOY_TASKS=8)
    assert [line.split()[1] for line in done.stderr.splitlines()] == orders[0]
    config = cli_world.store().config()
    assert (config.exclude, list(config.tasks)) == (("toy-0002",), orders[0])
    one = await cli_world.run(*NOP, "--task", "toy-0007", TOY_TASKS=8)
    assert one.stderr == "[1/1] toy-0007 unresolved (tests_failed): it is wrong\n"


async def test_a_dry_run_says_what_it_would_do_and_cost_and_writes_nothing(cli_world: CliWorld) -> None:
    async with toy_provider() as provider:
        run = toy_run(provider, "--attempts", 2, "--concurrency", 3, "--max-cost-per-task", 0.5, "--dry-run")
        done = await cli_world.run(*run)
        assert done.code == 0
        rows = {line.split("   ")[0].strip(): line for line in done.stdout.splitlines()}
        assert "3, 2 trials each" in rows["tasks"]
        assert "$3.00" in rows["cost at most"]
        assert "3 agents" in rows["at once"]
        tighter = await cli_world.run(*run, "--max-cost", 1, "--json")
        assert tighter.json["max_cost_usd"] == 1
        unbounded = await cli_world.run(*toy_run(provider, "--dry-run"))
        assert "not bounded: give --max-cost or --max-cost-per-task" in unbounded.stdout
    free = await cli_world.run(*NOP, "--dry-run")
    assert "nothing: no model is used" in free.stdout
    assert list(cli_world.results.iterdir()) == []
    assert provider.asked.total() == 0


async def test_what_the_agent_is_told_reaches_it_and_stays_with_the_run(cli_world: CliWorld) -> None:
    (cli_world.folder / "careful.md").write_text("Be careful.")
    told = ("--append-system-prompt", "@careful.md", "--allowed-tools", "Bash(git *), Read", "--agent-env", "MINE=a=b")
    asked = ("bench", "run", "toy", "--agent", "command", "--agent-command", "env", "--isolation", "off", "--limit", 1)
    dry = await cli_world.run(*asked, *told, "--dry-run")
    assert "11 characters added to its system prompt, tools Bash(git *) Read, MINE=a=b" in dry.stdout
    done = await cli_world.run(*asked, *told)
    assert done.code == 0, done
    seen = (cli_world.store().folder / "logs/toy-0001/attempt-1/stdout.log").read_text().splitlines()
    assert {"PROCTOR_APPEND_SYSTEM_PROMPT=Be careful.", "PROCTOR_ALLOWED_TOOLS=Bash(git *),Read", "MINE=a=b"} <= set(
        seen
    )
    assert cli_world.store().config().agent_options == AgentOptions(
        append_system_prompt="Be careful.", allowed_tools=("Bash(git *)", "Read"), env={"MINE": "a=b"}
    )


async def test_an_agent_that_takes_too_long_is_stopped_and_graded(cli_world: CliWorld) -> None:
    slow = ("--agent", "command", "--agent-command", "sh -c 'echo right >answer.txt; exec sleep 600'")
    for number, seconds in enumerate(limits(0.5), start=1):
        done = await cli_world.run(
            "bench", "run", "toy", *slow, "--isolation", "off", "--timeout", seconds, "--limit", 1
        )
        assert done.code == 0, done.stderr
        (result,) = cli_world.store(f"toy/run-00{number}").results()
        assert str(result.attempts[0].cause) == "agent_timeout"
        assert result.agent_seconds < seconds + 30
        if str(result.status) == "resolved":  # it had the time to write its answer
            break
    assert str(result.status) == "resolved"


async def test_the_network_is_what_the_run_says_it_is(cli_world: CliWorld) -> None:
    if (why := await local_unavailable_reason()) is not None:
        pytest.skip(why)
    look = (
        'sh -c \'cut -d: -f1 /proc/net/dev | tail -n +3 | tr -d " " >answer.txt; '
        "env | grep -c ^ANTHROPIC_BASE_URL >>answer.txt'"
    )
    seen = {}
    async with toy_provider() as provider:
        for number, network in enumerate(("none", "model", "open"), start=1):
            run = ("bench", "run", "toy", "--agent", "command", "--agent-command", look, "--limit", 1)
            done = await cli_world.run(*run, "--model", "claude-sonnet-4-5", "--network", network, **access(provider))
            assert done.code == 0, done.stderr
            logs = cli_world.store(f"toy/run-{number:03}").logs("toy-0001", 1, 1)
            seen[network] = (logs / "submission.diff").read_text().split()
    assert seen["none"] == ["lo", "0"]
    assert seen["model"] == ["lo", "1"]
    assert set(seen["open"]) > {"lo", "1"}


async def test_infrastructure_errors_are_retried_now_and_by_resume(cli_world: CliWorld) -> None:
    async with toy_provider() as provider:
        # The toy agent says that the trouble may pass (exit code 75) when an answer is no answer.
        provider.overrides["toy-0002"] = [failing(418, "teapot_error")] * 2
        env = access(provider)
        done = await cli_world.run(*toy_run(provider, "--retries", 1), **env)
        assert done.code == 12
        assert "retry in 2 s: toy-0002: provider_error:" in done.stderr or "retry in 3 s" in done.stderr
        assert "toy-0002 error (provider_error)" in done.stderr
        assert "retry the errors with `proctor bench resume toy/run-001 --retry-errors`" in done.stderr
        again = await cli_world.run("bench", "resume", "run-001", **env)
        assert (again.code, provider.asked.total()) == (12, 8), "an error is a result until it is asked for again"
        done = await cli_world.run("bench", "resume", "run-001", "--retry-errors", **env)
    assert done.code == 0, done.stderr
    assert done.stderr == "[3/3] toy-0002 resolved (solved)\n"
    attempts = cli_world.store().result("toy-0002").attempts
    assert [str(attempt.cause) for attempt in attempts] == ["provider_error", "provider_error", "answered"]
    assert all((cli_world.store().folder / attempt.logs / "attempt.json").exists() for attempt in attempts)


USAGE = {
    "no model": (("bench", "run", "toy"), "the agent claude_code needs a model"),
    "no key": (("bench", "run", "toy", "--model", "sonnet"), "there is no key for the model claude-sonnet-5"),
    "no such script": (("bench", "run", "toy", "--model", "script:nowhere.yaml"), "cannot read the script"),
    "no such recording": (("bench", "run", "toy", "--model", "replay:run-009"), "there is no run 'run-009'"),
    "no such preset": ((*NOP[:3], "--model", "sonnet", "--preset", "grand"), "grand"),
    "no such agent": (("bench", "run", "toy", "--agent", "clod"), "there is no agent 'clod'"),
    "no such task": ((*NOP, "--task", "toy-9999"), "there is no task 'toy-9999'"),
    "no task left": ((*NOP, "--filter", "nothing"), "no task is chosen"),
    "no command": (("bench", "run", "toy", "--agent", "command"), "needs a command to run"),
    "a command for another": ((*NOP, "--agent-command", "true"), "--agent-command is for --agent command"),
    "an open quote": (("bench", "run", "toy", "--agent", "command", "--agent-command", "'"), "No closing quotation"),
    "no network": (("bench", "run", "toy", "--model", "sonnet", "--network", "none"), "cannot reach a model"),
    "no login": (("bench", "run", "toy", "--model", "sonnet", "--own-login"), "there is no login in the usual place"),
    "an unused login": ((*NOP, "--auth-from", "."), "--auth-from names a login that is not used"),
    "no run": (("bench", "resume", "run-001"), "there is no run 'run-001'"),
    "no attempts": ((*NOP, "--attempts", "0"), "--trials must be a whole number from 1 to 1,000,000, not '0'"),
    "told for nothing": (
        (*ORACLE, "--system-prompt", "x"),
        "the agent oracle takes no instructions",
    ),
    "no such prompt": ((*ORACLE, "--system-prompt", "@nothing.md"), "cannot read the prompt: No such file"),
    "no variable": ((*ORACLE, "--agent-env", "A"), "--agent-env must be of the form NAME=VALUE, not 'A'"),
    "a key": (
        ("bench", "run", "toy", "--model", "script:x", "--agent-env", "ANTHROPIC_API_KEY=dummy"),
        "Proctor sets ANTHROPIC_API_KEY for Claude Code by itself",
    ),
    "a prompt for a pod": (
        ("bench", "run", "toy", "--mode", "h2", "--model", "script:x", "--system-prompt", "x"),
        "--system-prompt does not bind pods",
    ),
}


@pytest.mark.parametrize(("command", "sentence"), USAGE.values(), ids=USAGE.keys())
async def test_an_invalid_request_is_refused_in_one_sentence_and_makes_no_run(
    cli_world: CliWorld, command: tuple[object, ...], sentence: str
) -> None:
    env = {"ANTHROPIC_API_KEY": KEY} if "--preset" in command else {}
    done = await cli_world.run(*command, **env)
    assert done.code == 2
    assert done.stderr.startswith("proctor: ")
    assert sentence in done.stderr
    assert done.stderr.count("\n") == 1
    assert [path for path in cli_world.results.rglob("*") if path.is_file()] == []
    assert cli_world.leftovers() == []


async def test_a_run_whose_data_has_changed_is_not_gone_on_with(cli_world: CliWorld) -> None:
    await cli_world.run(*NOP, TOY_TASKS=3)
    for count, sentence in (
        (4, "the data has changed since the run was started"),
        (2, "no longer has: 'toy-0003'"),
        (0, "no longer has: 'toy-0001'"),
    ):
        done = await cli_world.run("bench", "resume", "run-001", TOY_TASKS=count)
        assert done.code == 20
        assert sentence in done.stderr


async def test_a_run_answers_again_from_its_own_recording_wherever_it_is_started(cli_world: CliWorld) -> None:
    async with toy_provider() as provider:
        await cli_world.run(*toy_run(provider), **access(provider))
        first = await cli_world.run("bench", "show", "toy/run-001", "--json")
        # From a recording there is no key to be had, and nobody is asked.
        run = [word if word != "claude-sonnet-4-5" else "replay:run-001" for word in toy_run(provider, "--json")]
        done = await cli_world.run(*run)
        assert provider.asked.total() == 9
    assert (done.code, done.json["resolved"]) == (0, 3)
    assert done.json["cost_usd"] == sum(usage["cost_usd"] for task in first.json["tasks"] for usage in task["usage"])
    assert cli_world.store("toy/run-002").config().model == f"replay:{cli_world.store().folder}"


async def test_concurrency_is_kept(cli_world: CliWorld) -> None:
    async with toy_provider() as provider:
        provider.hold()
        job = cli_world.start(*toy_run(provider, "--concurrency", 3), **access(provider), TOY_TASKS=7)
        await eventually(lambda: provider.under_way == 3, "three at once")
        provider.release()
        done = await job.wait()
    assert done.code == 0
    assert provider.most_under_way == 3


async def test_every_document_of_a_run_fits_its_schema(cli_world: CliWorld) -> None:
    """Every document that a run writes is of the kind that its schema describes."""
    import jsonschema

    async with toy_provider() as provider:
        await cli_world.run(*toy_run(provider), **access(provider))
    folder = cli_world.store().folder
    documents = {
        "run-config": [folder / "config.json"],
        "run-summary": [folder / "summary.json"],
        "task-result": list((folder / "trials").iterdir()),
    }
    for name, files in documents.items():
        schema = json.loads((await cli_world.run("schema", name)).stdout)
        for file in files:
            jsonschema.validate(json.loads(file.read_bytes()), schema)
    schema = json.loads((await cli_world.run("schema", "journal-entry")).stdout)
    for line in (folder / "journal.jsonl").read_text().splitlines():
        jsonschema.validate(json.loads(line), schema)
    assert to_json(cli_world.store().config()) == (folder / "config.json").read_bytes()
    await asyncio.sleep(0)


async def test_a_replay_of_more_than_was_recorded_is_refused_before_it_is_begun(cli_world: CliWorld) -> None:
    async with toy_provider() as provider:
        assert (await cli_world.run(*toy_run(provider, "--limit", 2, "--quiet"), **access(provider))).code == 0
        replay = [word if word != "claude-sonnet-4-5" else "replay:run-001" for word in toy_run(provider)]
        for more, lacking in (
            ((), "1 of the 3 trials, such as 'toy-0003'"),
            (("--limit", 1, "--attempts", 2), "1 of the 2 trials, such as trial 2 of 'toy-0001'"),
        ):
            refused = await cli_world.run(*replay, *more)
            assert (refused.code, lacking in refused.stderr) == (2, True), refused
        assert not cli_world.store("toy/run-002").folder.exists()


async def test_a_run_that_goes_on_with_another_version_says_so_and_errors_say_what_they_are(
    cli_world: CliWorld,
) -> None:
    missing = ("--agent", "command", "--agent-command", "/no/such/program")
    run = ("bench", "run", "toy", *missing, "--isolation", "off", "--limit", 1)
    done = await cli_world.run(*run)
    told = "[1/1] toy-0001 error (missing_program): the command is not in the environment"
    assert (done.code, done.stderr.startswith(told)) == (12, True), done
    store = cli_world.store()
    config = store.config()
    store.write_config(msgspec.structs.replace(config, versions={**config.versions, "proctor": "0.0.1"}))
    again = await cli_world.run("bench", "resume", "run-001", "--retry-errors")
    first, second, *_ = again.stderr.splitlines()
    assert first.startswith("proctor was 0.0.1 when the run was started, and is "), again
    assert first.endswith(" now: trials of both will be in this run")
    assert second.startswith(told)
