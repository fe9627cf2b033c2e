"""What a run makes of a provider in trouble: held out by the gateway, tried again by the runner, or final."""

import random
import shlex
from typing import Any

import pytest
from toy_benchmark import Toy

from proctor.core.causes import Cause, Status
from proctor.core.result import TaskResult
from sessions import QUICK, TOY_COMMAND, Toys
from toy_provider import (
    ANSWER_USD,
    ResponseOverride,
    ToyProvider,
    cut,
    drop,
    failing,
    html,
    malformed,
    silence,
    toy_provider,
)

FOREVER = 1000


TOY_WORDS = shlex.join(TOY_COMMAND)


def answering(provider: ToyProvider) -> ResponseOverride:
    """No override at all, where some is to come later."""

    async def fine(request: Any, body: Any) -> Any:
        return await provider._say(request, body, provider._identify(body))

    return fine


def only(toys: Toys) -> TaskResult:
    (result,) = toys.store.results()
    return result


@pytest.fixture
def one(toys: Toys) -> Toys:
    toys.benchmark = Toy(1)
    return toys


HELD_OUT = {
    "429": failing(429, "rate_limit_error"),
    "529": failing(529, "overloaded_error"),
    "500": failing(500),
    "drop": drop,
    "silence": silence,
}


@pytest.mark.parametrize("override", HELD_OUT.values(), ids=HELD_OUT.keys())
async def test_a_transient_provider_error_is_retried_by_the_gateway_and_costs_no_attempt(
    one: Toys, override: ResponseOverride
) -> None:
    one.idle_seconds = 1.0 if override is silence else one.idle_seconds
    async with toy_provider() as provider:
        provider.overrides["toy-0001"] = [override] * (QUICK.tries - 1)
        ended = await one.run(provider)
    assert one.outcomes() == {"toy-0001": ("resolved", "solved", 1)}
    assert (ended.trials_left, ended.summary.errors) == (0, 0)
    assert provider.asked.total() == provider.turns + QUICK.tries - 1


LASTING = {
    "429": (failing(429, "rate_limit_error"), "rate_limited"),
    "529": (failing(529, "overloaded_error"), "provider_error"),
    "500": (failing(500), "provider_error"),
    "drop": (drop, "provider_error"),
    "silence": (silence, "provider_error"),
}


@pytest.mark.parametrize(("override", "cause"), LASTING.values(), ids=LASTING.keys())
async def test_a_persistent_provider_error_is_retried_three_times_and_is_not_the_agents_failure(
    one: Toys, override: ResponseOverride, cause: str
) -> None:
    one.idle_seconds = 0.25 if override is silence else one.idle_seconds  # no answer comes that could be late
    async with toy_provider() as provider:
        provider.overrides["toy-0001"] = [override] * FOREVER
        ended = await one.run(provider)
    assert one.outcomes() == {"toy-0001": ("error", cause, 3)}
    assert [attempt.cause.value for attempt in only(one).attempts] == [cause] * 3
    assert provider.asked.total() == 3 * QUICK.tries
    assert (ended.trials_left, ended.stopped_by, ended.summary.errors) == (0, None, 1)
    # Doubling, with up to half as much more by chance.
    first, second = one.observer.waits
    assert 0.01 <= first <= 0.015
    assert 0.02 <= second <= 0.03


BROKEN = {"cut stream": cut, "malformed body": malformed, "HTML": html}


@pytest.mark.parametrize("override", BROKEN.values(), ids=BROKEN.keys())
async def test_an_answer_that_broke_in_the_middle_is_asked_for_again_and_what_was_whole_is_not(
    one: Toys, override: ResponseOverride
) -> None:
    async with toy_provider() as provider:
        # Two turns are answered, the third one breaks; the next attempt pays for the third only.
        provider.overrides["toy-0001"] = [answering(provider)] * 2 + [override]
        await one.run(provider)
    assert one.outcomes() == {"toy-0001": ("resolved", "solved", 2)}
    assert [attempt.cause for attempt in only(one).attempts] == [Cause.PROVIDER_ERROR, Cause.ANSWERED]
    assert [count for _, count in sorted(provider.asked.items())] == [1, 1, 2]
    assert only(one).usage[0].requests >= provider.turns


async def test_a_request_that_the_provider_finds_wrong_is_the_agents_own_doing(one: Toys) -> None:
    async with toy_provider() as provider:
        provider.overrides["toy-0001"] = [failing(400, "invalid_request_error", "prompt is too long: 3 > 2")] * FOREVER
        await one.run(provider)
    assert one.outcomes() == {"toy-0001": ("unresolved", "agent_crashed", 1)}
    assert provider.asked.total() == 1


@pytest.mark.parametrize("status", [401, 403, 404])
async def test_a_refused_login_stops_the_run_before_the_next_task(toys: Toys, status: int) -> None:
    toys.benchmark = Toy(12)
    async with toy_provider() as provider:
        provider.overrides["*"] = [failing(status, "authentication_error", "invalid x-api-key")] * FOREVER
        ended = await toys.run(provider, concurrency=2)
        assert (ended.stopped_by, ended.trials_left) == (Cause.BAD_LOGIN, 12)
        assert "invalid x-api-key" in ended.detail
        assert toys.outcomes() == {}
        # Both that had begun; nobody else, and neither of them twice.
        assert provider.asked.total() <= 2
        provider.overrides["*"] = []
        ended = await toys.resume(provider)
    assert (ended.stopped_by, ended.trials_left, ended.summary.resolved) == (None, 0, 12)


async def test_an_agent_that_goes_on_with_a_refused_login_is_ended(toys: Toys) -> None:
    """The toy agent would leave by itself; this one would ask for ever."""
    async with toy_provider() as provider:
        provider.overrides["*"] = [failing(401, "authentication_error")] * FOREVER
        stubborn = ("sh", "-c", f"while :; do {TOY_WORDS}; sleep 1; done")
        ended = await toys.run(provider, command=stubborn, concurrency=1)
    assert (ended.stopped_by, ended.trials_left) == (Cause.BAD_LOGIN, 3)
    assert toys.observer.lines.count("stopping bad_login") == 1


async def test_a_login_that_is_refused_for_something_on_the_side_does_not_stop_an_agent_that_copes(one: Toys) -> None:
    """As a model that this login may not use: the agent has had answers, is refused once, and ends well."""
    async with toy_provider() as provider:
        provider.overrides["toy-0001"] = [answering(provider)] * provider.turns + [failing(403, "permission_error")]
        twice = f"export PROCTOR_MAX_TURNS={provider.turns}; {TOY_WORDS}; {TOY_WORDS} || true"
        ended = await one.run(provider, command=("sh", "-c", twice), max_turns=2 * provider.turns)
        assert provider.asked.total() == provider.turns + 1
    assert (ended.stopped_by, one.outcomes()) == (None, {"toy-0001": ("resolved", "solved", 1)})


async def test_an_agent_with_a_model_cannot_stop_the_run_by_asking_for_one_that_is_none(one: Toys) -> None:
    async with toy_provider() as provider:
        provider.overrides["toy-0001"] = [answering(provider), *[failing(404, "not_found_error")] * FOREVER]
        command = ("sh", "-c", f"{TOY_WORDS}; exit 3")
        ended = await one.run(provider, command=command)
    assert ended.stopped_by is None
    assert [attempt.cause for attempt in only(one).attempts] == [Cause.AGENT_CRASHED]


async def test_a_provider_error_that_was_overcome_is_not_the_cause(one: Toys) -> None:
    async with toy_provider() as provider:
        # One request is lost for good, and the agent asks again by itself; later it crashes.
        provider.overrides["toy-0001"] = [failing(500)] * QUICK.tries
        await one.run(provider, command=("sh", "-c", f"{TOY_WORDS}; {TOY_WORDS}; exit 3"))
    assert one.outcomes() == {"toy-0001": ("resolved", "solved", 1)}
    assert only(one).attempts[0].cause is Cause.AGENT_CRASHED


async def test_a_storm_ends_and_everything_adds_up(toys: Toys) -> None:
    chance = random.Random(7)
    kinds: list[ResponseOverride] = [*HELD_OUT.values(), cut, malformed, html]
    kinds.remove(silence)  # it is slow, and has its own tests
    toys.benchmark = Toy(20)
    async with toy_provider() as provider:
        for task in toys.benchmark.tasks():
            provider.overrides[task.id] = [chance.choice(kinds) for _ in range(chance.randint(0, 12))]
        ended = await toys.run(provider, concurrency=5)
        left = sum(map(len, provider.overrides.values()))
    results = list(toys.store.results())
    assert len(results) == 20
    assert ended.trials_left == 0
    assert {result.status for result in results} == {Status.RESOLVED, Status.ERROR}
    for result in results:
        good = result.status is Status.RESOLVED
        assert len(result.attempts) <= 3 if good else len(result.attempts) == 3
        assert (result.cause is Cause.SOLVED) == good
    # Who failed had more override than three attempts can take; who did not has none left.
    assert all(not provider.overrides[result.task_id] for result in results if result.status is Status.RESOLVED)
    assert left == sum(len(provider.overrides[result.task_id]) for result in results if result.status is Status.ERROR)
    # Nothing whole was asked for twice; what broke off after it had begun may have cost something, too.
    assert max(provider.served.values()) == 1
    assert sum(usage.cost_usd or 0 for result in results for usage in result.usage) >= (
        provider.served.total() * ANSWER_USD - 1e-9
    )
