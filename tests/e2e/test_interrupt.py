"""A run that is told to stop, and runs that meet."""

import asyncio
import signal
import time

import pytest

from cli_jobs import Job
from cli_world import CliWorld, access, toy_run
from toy_provider import ANSWER_USD, ToyProvider, toy_provider
from waiting import eventually

NAMES = {signal.SIGINT: "Ctrl-C", signal.SIGTERM: "SIGTERM", signal.SIGHUP: "SIGHUP"}


async def until(provider: ToyProvider, requests: int, job: Job) -> None:
    while provider.asked.total() < requests:
        assert job.poll() is None, job.stderr.read_text()
        await asyncio.sleep(0.01)


@pytest.mark.parametrize("number", NAMES, ids=NAMES.values())
async def test_a_run_that_is_interrupted_stops_its_agents_says_how_to_go_on_and_exits_130(
    cli_world: CliWorld, number: signal.Signals
) -> None:
    async with toy_provider(turns=3) as provider:
        env = {**access(provider), "TOY_TASKS": 6}
        provider.hold(after=3)
        job = cli_world.start(*toy_run(provider, "--concurrency", 2), **env)
        await eventually(lambda: provider.asked.total() == 5 and provider.under_way == 2, "two that wait")
        job.signal(number)
        done = await job.wait()
        provider.release()
        assert done.code == 130, done.stderr
        assert done.stderr.splitlines()[-1] == (
            "proctor: run toy/run-001 is interrupted, and nothing that was paid for is lost; "
            "resume with `proctor bench resume toy/run-001`"
        )
        assert "Traceback" not in done.stderr
        assert cli_world.leftovers() == []
        assert (cli_world.store().folder / "summary.json").exists()
        done = await cli_world.run("bench", "resume", "run-001", "--json", **env)
    assert (done.code, done.json["resolved"]) == (0, 6)
    # What was under way when it was interrupted is in the cost too, as an estimate.
    assert done.json["cost_usd"] - done.json["estimated_usd"] == pytest.approx(18 * ANSWER_USD)
    assert done.json["cost_usd"] >= provider.asked.total() * ANSWER_USD - 1e-9
    interrupted = [
        one for result in cli_world.store().results() for one in result.attempts if one.cause == "interrupted"
    ]
    assert len(interrupted) == 2


async def test_a_second_ctrl_c_does_not_wait_for_an_agent_that_does_not_listen(cli_world: CliWorld) -> None:
    deaf = "sh -c 'trap : INT TERM; echo ready; while :; do sleep 0.1; done'"
    run = ("bench", "run", "toy", "--agent", "command", "--agent-command", deaf, "--isolation", "off")
    for number in (1, 2, 3):
        job = cli_world.start(*run, TOY_TASKS=1)
        log = cli_world.store(f"toy/run-00{number}").logs("toy-0001", 1, 1) / "stdout.log"
        await eventually(lambda log=log: log.exists() and log.read_text(), "the agent's word")  # type: ignore[misc]
        started = time.monotonic()
        job.signal(signal.SIGINT)
        await asyncio.sleep(0.5)
        assert job.poll() is None, "it should still be waiting for the agent to end by itself"
        job.signal(signal.SIGINT)
        done = await job.wait()
        assert done.code == 130
        assert f"resume with `proctor bench resume toy/run-00{number}`" in done.stderr
        assert [process for process in cli_world.processes() if "trap" in " ".join(process.cmdline())] == []
        # An agent has five seconds to end by itself: whoever waits for that is never sooner.
        if time.monotonic() - started < 5:
            return
    pytest.fail("it waited for the agent")


async def test_two_commands_on_one_run_are_refused_with_a_sentence(cli_world: CliWorld) -> None:
    async with toy_provider() as provider:
        env = {**access(provider), "TOY_TASKS": 2}
        provider.hold(after=1)
        first = cli_world.start(*toy_run(provider), **env)
        await until(provider, 1, first)
        second = await cli_world.run("bench", "resume", "toy/run-001", "--max-cost", 99, **env)
        assert second.code == 12
        assert second.stderr == "proctor: run toy/run-001 is in use by another command; wait for it to end\n"
        assert cli_world.store().config().max_cost is None, "the run that is at work was changed"
        provider.release()
        assert (await first.wait()).code == 0
    assert set(provider.served.values()) == {1}


async def test_a_run_that_is_complete_is_resumed_for_nothing(cli_world: CliWorld) -> None:
    async with toy_provider() as provider:
        env = access(provider)
        await cli_world.run(*toy_run(provider), **env)
        before = {path: path.stat().st_mtime_ns for path in cli_world.store().folder.rglob("*.json*")}
        done = await cli_world.run("bench", "resume", "toy/run-001", **env)
        after = {path: path.stat().st_mtime_ns for path in cli_world.store().folder.rglob("*.json*")}
    assert done.code == 0
    assert provider.asked.total() == 9
    assert {path.name for path in before if before[path] != after[path]} <= {"summary.json"}
