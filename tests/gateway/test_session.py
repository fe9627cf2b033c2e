import asyncio
import os
from pathlib import Path
from typing import Any

import pytest
from aiohttp import ClientSession

from gateway_lab import MODEL, Agent, message, provider, respond_with, upstream, world
from proctor.core.causes import Cause
from proctor.core.errors import LimitReached
from proctor.core.result import Tokens
from proctor.gateway import (
    BudgetLimitHit,
    ExchangeFinished,
    Gateway,
    GatewaySessionSpec,
    Prices,
    RunBudget,
    ScriptBackend,
    parse_script,
)
from proctor.gateway.backend import RecordingGate, RecordingLost
from proctor.gateway.recording import load_recording
from waiting import PATIENCE, eventually

# One response of this costs a cent: 1000 output tokens of a model at 10 dollars per million.
CENT = {"text": "x", "model": "claude-sonnet-5", "usage": {"output": 1000}, "repeat": "forever"}


def cents(**more: Any) -> ScriptBackend:
    return ScriptBackend(parse_script({"default": [{**CENT, **more}]}))


async def test_a_spent_budget_is_refused_for_good_in_the_words_that_end_claude_code(tmp_path: Path) -> None:
    async with world(cents(), cap_usd=0.025, recording=tmp_path / "c.jsonl") as here:
        assert [(await here.agent.ask())[0] for _ in range(3)] == [200, 200, 200]
        await asyncio.sleep(0)
        (limit,) = here.events_of(BudgetLimitHit)
        assert limit == here.session.limit
        assert limit.cause is Cause.TASK_BUDGET
        for _ in range(2):
            response = await here.agent.post()
            assert (response.status, response.headers["x-should-retry"]) == (402, "false")
            assert await response.json() == {
                "type": "error",
                "error": {
                    "type": "billing_error",
                    "message": "budget_exhausted: the task's budget is spent ($0.03 of $0.025)",
                },
            }
        assert (await here.agent.http.get(here.agent.base + "/v1/models")).status == 402
        usage = here.session.usage
        assert (usage.requests, usage.refused, usage.cost_usd) == (3, 2, 0.03)
        assert len(here.events_of(BudgetLimitHit)) == 1
    assert [refusal.status for refusal in load_recording(tmp_path / "c.jsonl").refusals] == [402, 402]


async def test_a_spent_run_ends_all_its_sessions() -> None:
    ledger = RunBudget(0.02)
    async with Gateway(cents(), budget=ledger) as gateway, ClientSession() as http:
        url = await gateway.listen()
        async with (
            gateway.session(GatewaySessionSpec(task_id="a")) as one,
            gateway.session(GatewaySessionSpec(task_id="b")) as two,
        ):
            assert (await Agent(http, url + one.path).ask())[0] == 200
            assert (await Agent(http, url + one.path).ask())[0] == 200
            assert (await Agent(http, url + two.path).ask())[0] == 402
            assert two.limit is not None
            assert two.limit.cause is Cause.RUN_BUDGET


async def test_a_budget_is_exceeded_by_the_requests_in_flight_at_most() -> None:
    async with world(cents(delay=0.02), cap_usd=0.03) as here:
        statuses = [status for status, _ in await asyncio.gather(*(here.agent.ask() for _ in range(10)))]
        statuses += [(await here.agent.ask())[0] for _ in range(5)]
        assert statuses.count(200) == 10
        assert statuses[10:] == [402] * 5
        assert here.session.usage.cost_usd == 0.1


async def test_forty_tasks_at_once_stop_spending_at_a_third_of_what_they_need() -> None:
    """Each task asks one request at a time, so a run overshoots its limit by one response per running task at most."""
    ledger = RunBudget(0.40)
    ends: list[str] = []

    async def task(gateway: Gateway, http: ClientSession, url: str, number: int) -> None:
        try:
            async with gateway.session(GatewaySessionSpec(task_id=f"t{number}", cap_usd=0.05)) as session:
                agent = Agent(http, url + session.path)
                for _ in range(3):
                    if (await agent.ask())[0] != 200:
                        break
                ends.append("limit" if session.limit else "done")
        except LimitReached:
            ends.append("not started")

    async with Gateway(cents(delay=0.005), budget=ledger) as gateway, ClientSession() as http:
        url = await gateway.listen()
        await asyncio.gather(*(task(gateway, http, url, number) for number in range(40)))
    assert 0.35 <= ledger.spent_usd <= 0.40
    assert ends.count("not started") == 40 - ends.count("done") > 20
    assert ends.count("limit") == 0


async def test_a_session_waits_until_its_cap_fits() -> None:
    ledger = RunBudget(0.1)
    async with Gateway(cents(), budget=ledger) as gateway:

        async def second() -> bool:
            async with gateway.session(GatewaySessionSpec(task_id="b", cap_usd=0.08)) as session:
                return not session.closed

        async with gateway.session(GatewaySessionSpec(task_id="a", cap_usd=0.08)):
            waiting = asyncio.create_task(second())
            await asyncio.sleep(0.01)
            assert not waiting.done()
        assert await asyncio.wait_for(waiting, PATIENCE)


async def test_a_model_without_a_price_is_refused_where_a_budget_must_be_kept() -> None:
    async with provider() as lab, world(upstream(lab), cap_usd=1.0) as here:
        response = await here.agent.post(model="mystery-1")
        assert response.status == 402
        text = (await response.json())["error"]["message"]
        assert "no price is known for mystery-1" in text
        assert "price table" in text
        assert lab.requests == []
        assert here.session.limit is not None
        assert here.session.limit.cause is Cause.RUN_BUDGET


async def test_a_model_without_a_price_is_let_through_when_that_is_allowed_or_nothing_is_limited() -> None:
    for cap_usd, allowed in ((1.0, True), (None, False)):
        async with provider() as lab, world(upstream(lab), cap_usd=cap_usd, allow_unpriced=allowed) as here:
            lab.responses = [respond_with(message(model="mystery-1", tokens=Tokens(input=5)))]
            assert (await here.agent.ask(model="mystery-1"))[0] == 200
            usage = here.session.usage
            assert usage.cost_usd is None
            assert [(entry.model, entry.cost_usd) for entry in usage.models] == [("mystery-1", None)]


async def test_a_response_served_by_a_model_without_a_price_ends_a_session_with_a_budget() -> None:
    """The request named a model that is priced, but another one responded: its cost is unknown."""
    async with provider() as lab, world(upstream(lab), cap_usd=1.0) as here:
        lab.responses = [respond_with(message(model="mystery-1"))]
        assert (await here.agent.ask())[0] == 200
        assert (await here.agent.ask())[0] == 402


async def test_a_users_price_table_is_used(tmp_path: Path) -> None:
    table = tmp_path / "prices.json"
    table.write_text('{"models": {"mystery-1": {"input": 1000000, "output": 1}}}')
    async with provider() as lab, world(upstream(lab), cap_usd=9.5, prices=Prices.load(table)) as here:
        lab.responses = [respond_with(message(model="mystery-1", tokens=Tokens(input=10)))]
        assert (await here.agent.ask(model="mystery-1"))[0] == 200
        assert here.session.usage.cost_usd == 10
        assert (await here.agent.ask(model="mystery-1"))[0] == 402


async def test_a_listener_that_fails_breaks_no_response(caplog: pytest.LogCaptureFixture) -> None:
    heard: list[Any] = []

    def listener(event: Any) -> None:
        heard.append(event)
        raise RuntimeError("listener")

    asyncio.get_running_loop().set_exception_handler(lambda *_: None)
    async with Gateway(cents()) as gateway, ClientSession() as http:
        url = await gateway.listen()
        async with gateway.session(GatewaySessionSpec(task_id="a"), on_event=listener) as session:
            assert (await Agent(http, url + session.path).ask())[0] == 200
            await asyncio.sleep(0)
    assert [type(event) for event in heard] == [ExchangeFinished]


async def test_a_full_disk_is_reported_and_breaks_no_response(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with world(cents(), recording=tmp_path / "c.jsonl") as here:
        real = os.write

        def full(descriptor: int, data: bytes) -> int:
            if b'"kind":"exchange"' in data:
                raise OSError(28, "No space left on device")
            return real(descriptor, data)

        monkeypatch.setattr(os, "write", full)
        for stream in (True, False):
            assert (await here.agent.ask(stream=stream))[0] == 200
        assert here.session.failure is not None
        assert here.session.failure.cause is Cause.DISK_FULL
        assert here.session.usage.requests == 2


async def test_a_killed_process_leaves_a_recording_that_can_be_read(tmp_path: Path) -> None:
    path = tmp_path / "c.jsonl"
    async with world(cents(), recording=path) as here:
        for number in range(3):
            await here.agent.ask(f"request {number}", stream=True)
        await eventually(lambda: len(here.events_of(ExchangeFinished)) == 3, "the meter's word")
        recording = load_recording(path)  # as it is while the session is still open
    assert [recorded.messages[0]["content"] for recorded in recording.exchanges] == [f"request {n}" for n in range(3)]
    assert recording.header.task_id == "task-1"
    assert {recorded.exchange.request.model for recorded in recording.exchanges} == {MODEL}


class HeldGate(RecordingGate):
    """A copy that a test confirms, or refuses."""

    def __init__(self) -> None:
        self.size = 0
        self.waiting = 0
        self.copied = asyncio.Event()
        self.lost = False

    def written(self, size: int) -> None:
        self.size = size

    async def wait_for_copy(self, size: int) -> None:
        assert size <= self.size
        self.waiting += 1
        await self.copied.wait()
        if self.lost:
            raise RecordingLost


async def test_behind_a_gate_nothing_is_sent_before_the_copy_has_its_mark(tmp_path: Path) -> None:
    gate, budget = HeldGate(), RunBudget(1.0)
    spec = GatewaySessionSpec(task_id="t", recording=tmp_path / "c.jsonl")
    async with provider() as lab, Gateway(upstream(lab), budget=budget) as gateway, ClientSession() as http:
        url = await gateway.listen()
        async with gateway.session(spec, gate=gate) as session:
            agent = Agent(http, url + session.path)
            asking = asyncio.create_task(agent.ask())
            await eventually(lambda: gate.waiting, "the request at the gate")
            assert lab.requests == []
            gate.copied.set()
            assert (await asking)[0] == 200
            assert len(lab.requests) == 1
            assert gate.size == (tmp_path / "c.jsonl").stat().st_size
            # What others have spent meanwhile ends it at the gate, and what was not sent costs nothing.
            gate.copied.clear()
            asking, before = asyncio.create_task(agent.ask()), session.spent_usd
            await eventually(lambda: gate.waiting == 2, "the second request at the gate")
            budget.correct(1.0)
            gate.copied.set()
            assert (await asking)[0] == 402
            assert session.spent_usd == before
            assert session.limit is not None
            assert session.limit.cause is Cause.RUN_BUDGET
    assert len(lab.requests) == 1
    assert load_recording(tmp_path / "c.jsonl").unanswered == ()


async def test_a_copy_that_is_lost_lets_nothing_be_sent(tmp_path: Path) -> None:
    gate = HeldGate()
    gate.lost = True
    gate.copied.set()
    spec = GatewaySessionSpec(task_id="t", recording=tmp_path / "c.jsonl")
    async with provider() as lab, Gateway(upstream(lab)) as gateway, ClientSession() as http:
        url = await gateway.listen()
        async with gateway.session(spec, gate=gate) as session:
            status, _ = await Agent(http, url + session.path).ask()
            assert status >= 400
            assert lab.requests == []
