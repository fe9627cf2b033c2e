import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proctor.core.causes import Cause
from proctor.core.errors import LimitReached
from proctor.gateway.budget import _UNITS, BudgetCopy, RunBudget
from waiting import PATIENCE


def test_caps_are_added_up_exactly() -> None:
    ledger = RunBudget(0.3)
    accounts = [ledger.try_reserve(0.1) for _ in range(3)]
    assert None not in accounts
    assert ledger.try_reserve(0.1) is None


def test_what_a_task_did_not_need_is_free_again_when_it_ends() -> None:
    ledger = RunBudget(1.0)
    first = ledger.try_reserve(0.8)
    assert first is not None
    first.charge(0.2)
    assert ledger.try_reserve(0.8) is None
    first.release()
    assert ledger.try_reserve(0.8) is not None
    assert ledger.spent_usd == pytest.approx(0.2)


def test_a_task_is_exhausted_when_its_cap_is_spent_and_not_before() -> None:
    account = RunBudget().try_reserve(0.1)
    assert account is not None
    account.charge(0.0999)
    assert account.exhausted_budget() is None
    account.charge(0.0001)
    spent = account.exhausted_budget()
    assert spent is not None
    assert spent.cause is Cause.TASK_BUDGET
    assert spent.limit_usd == pytest.approx(0.1)


def test_a_runs_limit_exhausts_all_its_tasks() -> None:
    ledger = RunBudget(0.5)
    one, two = ledger.try_reserve(), ledger.try_reserve()
    assert one is not None
    assert two is not None
    one.charge(0.6)
    spent = two.exhausted_budget()
    assert spent is not None
    assert spent.cause is Cause.RUN_BUDGET
    assert ledger.try_reserve() is None


def test_the_cost_of_earlier_sessions_counts() -> None:
    ledger = RunBudget(1.0, spent_usd=0.95)
    assert ledger.try_reserve(0.1) is None
    assert ledger.try_reserve(0.05) is not None


async def test_a_task_waits_until_its_cap_fits() -> None:
    ledger = RunBudget(1.0)
    first = await ledger.reserve(0.7)
    waiting = asyncio.create_task(ledger.reserve(0.7))
    await asyncio.sleep(0)
    assert not waiting.done()
    first.charge(0.3)
    await asyncio.sleep(0)
    assert not waiting.done()
    first.release()
    second = await asyncio.wait_for(waiting, PATIENCE)
    assert not second.exhausted_budget()


async def test_a_task_that_exceeds_the_budget_is_refused_at_once() -> None:
    ledger = RunBudget(1.0)
    running = await ledger.reserve(0.5)
    running.charge(0.4)
    with pytest.raises(LimitReached, match="run cost limit reached"):
        await asyncio.wait_for(ledger.reserve(0.7), PATIENCE)


async def test_a_waiting_task_ends_when_the_budget_is_spent() -> None:
    ledger = RunBudget(1.0)
    first = await ledger.reserve(0.9)
    waiting = asyncio.create_task(ledger.reserve(0.5))
    await asyncio.sleep(0)
    first.charge(0.9)
    with pytest.raises(LimitReached):
        await asyncio.wait_for(waiting, PATIENCE)


@given(
    limit=st.integers(1, 1000),
    steps=st.lists(st.tuples(st.sampled_from(["open", "charge", "close"]), st.integers(1, 400)), max_size=60),
)
def test_the_caps_of_running_tasks_never_promise_more_than_is_left(limit: int, steps: list[tuple[str, int]]) -> None:
    ledger = RunBudget(limit / 100)
    open_accounts = []
    overshoot = 0.0
    for kind, amount in steps:
        if kind == "open":
            account = ledger.try_reserve(amount / 100)
            open_accounts += [account] if account else []
        elif open_accounts:
            account = open_accounts[amount % len(open_accounts)]
            if kind == "close":
                account.release()
                open_accounts.remove(account)
            elif account.exhausted_budget() is None:
                before = ledger.spent_usd
                account.charge(amount / 100)
                assert ledger.spent_usd == pytest.approx(before + amount / 100)
                if account.exhausted_budget():
                    overshoot += amount / 100
        reserved = sum(account.remaining_units for account in open_accounts) / _UNITS
        assert ledger.spent_usd + reserved <= limit / 100 + overshoot + 1e-9


def test_a_copy_refuses_no_reservation_and_no_request_until_it_hears_that_all_is_spent() -> None:
    copy = BudgetCopy(1.0, spent_usd=0.9)
    reservation = copy.try_reserve(0.5)
    assert reservation.exhausted_budget() is None
    copy.update(0.95)
    copy.update(0.2)  # an older message, which was held up
    assert copy.spent_usd == pytest.approx(0.95)
    copy.update(1.0)
    spent = reservation.exhausted_budget()
    assert spent is not None
    assert spent.cause is Cause.RUN_BUDGET


def test_an_overestimated_charge_is_corrected() -> None:
    ledger = RunBudget(1.0)
    reservation = ledger.try_reserve()
    assert reservation is not None
    reservation.charge(1.0)
    assert ledger.exhausted
    ledger.correct(-0.4)
    assert ledger.spent_usd == pytest.approx(0.6)
    assert not ledger.exhausted
