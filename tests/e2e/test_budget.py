"""What a run may cost, through the command line: it stops in time, says so, and resumes with a larger budget."""

import pytest

from cli_world import TOY_AGENT, CliWorld, access, toy_run
from toy_provider import ANSWER_USD, toy_provider
from waiting import eventually

TASKS = 40
TURNS = 6
NEEDED = TASKS * TURNS * ANSWER_USD


@pytest.mark.slow
async def test_forty_tasks_at_once_stop_at_a_third_and_finish_with_a_higher_limit(cli_world: CliWorld) -> None:
    limit = NEEDED / 3
    async with toy_provider(turns=TURNS, delay=0.05) as provider:
        env = {**access(provider), "TOY_TASKS": TASKS}
        run = toy_run(provider, "--concurrency", TASKS, "--max-cost", limit, "--quiet", "--json")
        done = await cli_world.run(*run, **env)
        assert done.code == 12
        assert "stopped (run_budget): budget_exhausted: the run's budget is spent" in done.stderr
        spent = done.json["cost_usd"] + done.json["unfinished_usd"]
        # It knows to the cent what it spent, which is the limit and at most what was under way when that was reached:
        # one answer of each agent, for on a busy machine those count too that have left the provider and not arrived.
        assert spent == pytest.approx(provider.served.total() * ANSWER_USD)
        assert limit <= spent <= limit + TASKS * ANSWER_USD
        assert provider.asked == provider.served

        # With the same limit nothing can be done, and nothing is asked.
        asked = provider.asked.total()
        done = await cli_world.run("bench", "resume", "toy/run-001", "--quiet", **env)
        assert (done.code, provider.asked.total()) == (12, asked)

        done = await cli_world.run(
            "bench", "resume", "toy/run-001", "--max-cost", 2 * NEEDED, "--quiet", "--json", **env
        )
    assert done.code == 0, done.stderr
    assert done.json["resolved"] == TASKS
    assert (done.json["cost_usd"], done.json["unfinished_usd"]) == (pytest.approx(NEEDED), 0)
    assert set(provider.served.values()) == {1}
    assert cli_world.store().config().max_cost == 2 * NEEDED
    causes = {attempt.cause.value for result in cli_world.store().results() for attempt in result.attempts}
    assert causes == {"answered", "run_budget"}
    assert cli_world.leftovers() == []


async def test_a_task_that_has_used_up_its_own_limit_is_graded_as_it_stands(cli_world: CliWorld) -> None:
    async with toy_provider(turns=TURNS) as provider:
        provider.last_words["toy-0002"] = "right"
        run = toy_run(provider, "--max-cost-per-task", 2.5 * ANSWER_USD, "--concurrency", 2, "--quiet")
        done = await cli_world.run(*run, **access(provider), TOY_TASKS=2)
    assert done.code == 0, done.stderr
    for result in cli_world.store().results():
        assert (str(result.status), str(result.cause)) == ("unresolved", "task_budget")
        assert result.verdict is not None
        assert result.verdict.reason == "it is wrong"
        assert result.usage[0].cost_usd == pytest.approx(3 * ANSWER_USD)
    assert provider.served.total() == 6


async def test_tasks_start_only_when_their_limit_fits_into_what_is_left(cli_world: CliWorld) -> None:
    async with toy_provider(turns=2) as provider:
        provider.hold()
        limits = ("--max-cost-per-task", 3 * ANSWER_USD, "--max-cost", 7 * ANSWER_USD)
        job = cli_world.start(*toy_run(provider, *limits, "--concurrency", 6), **access(provider), TOY_TASKS=6)
        await eventually(lambda: provider.under_way == 2, "two at once")
        provider.release()
        done = await job.wait()
    assert provider.most_under_way == 2
    # Three tasks cost six answers; a fourth may need three more, and one is left.
    assert (done.code, provider.served.total()) == (12, 6)
    assert "3 trials are left" in done.stderr
    assert "run cost limit reached" in done.stderr


async def test_a_model_of_ones_own_has_a_price_and_a_budget_with_a_table_of_ones_own(cli_world: CliWorld) -> None:
    table = cli_world.folder / "prices.yaml"
    table.write_text("models: {my-model: {input: 1000000, output: 1000000}}\n")
    async with toy_provider(turns=2) as provider:
        model = ("--model", "my-model", "--max-turns", provider.turns, "--max-cost", 1)
        run = ("bench", "run", "toy", *TOY_AGENT, "--isolation", "off", *model)
        env = {**access(provider), "TOY_TASKS": 1}
        refused = await cli_world.run(*run, **env)
        assert (refused.code, cli_world.store().folder.exists()) == (2, False), refused
        spent = await cli_world.run(*run, "--prices", table, **env)
        assert spent.code == 12, spent
        assert "resume with `proctor bench resume toy/run-001 --max-cost USD`, with a higher limit" in spent.stderr
        assert provider.asked.total() == 1
        more = ("bench", "resume", "run-001", "--max-cost", 10**9)
        done = await cli_world.run(*more, **env, PROCTOR_PRICES=table)
    assert done.code == 0, done
    assert provider.asked.total() == 2
    (result,) = cli_world.store().results()
    (usage,) = result.usage
    assert usage.cost_usd == usage.tokens.total
    assert cli_world.store().config().versions["prices"].startswith("prices.yaml ")
