"""What may be spent: a run's budget, and a reservation in it for each attempt.

An attempt starts only if its whole cap still fits into what the run has left, so the caps of running attempts never
add up to more than the run's limit. A limit is checked before a request is sent and charged when its response has
ended or broken off, so it is exceeded by the requests in flight at most.
"""

import asyncio
from typing import Final

from proctor.core.causes import Cause
from proctor.core.errors import LimitReached
from proctor.core.record import Record

# Amounts are integers in units of 1e-12 dollars: three caps of 0.1 fit into a limit of 0.3.
_UNITS: Final = 10**12


class ExhaustedBudget(Record):
    """A limit that has been reached: the task's own, or the run's."""

    cause: Cause
    value_usd: float
    limit_usd: float


class RunBudget:
    """A run's budget. None is no limit; `spent_usd` is what earlier sessions of the same run have spent."""

    def __init__(self, limit_usd: float | None = None, *, spent_usd: float = 0.0) -> None:
        self._limit = None if limit_usd is None else _units(limit_usd)
        self._spent = _units(spent_usd)
        self._reservations: set[BudgetReservation] = set()
        self._changed = asyncio.Event()

    @property
    def limit_usd(self) -> float | None:
        """What the run may spend in all."""
        return None if self._limit is None else self._limit / _UNITS

    @property
    def spent_usd(self) -> float:
        """What the run has spent so far."""
        return self._spent / _UNITS

    @property
    def exhausted(self) -> bool:
        """Whether nothing is left."""
        return self._limit is not None and self._spent >= self._limit

    def try_reserve(self, cap_usd: float | None = None, *, spent_usd: float = 0.0) -> "BudgetReservation | None":
        """Make a reservation if what is left of the cap fits now; without a cap, something must be left of the budget.

        `spent_usd` is what earlier attempts at the same trial have spent of the cap.
        """
        if self._limit is not None and self._spent + self._reserved() + _needed(cap_usd, spent_usd) > self._limit:
            return None
        reservation = BudgetReservation(self, cap_usd, spent_usd)
        self._reservations.add(reservation)
        return reservation

    async def reserve(self, cap_usd: float | None = None, *, spent_usd: float = 0.0) -> "BudgetReservation":
        """Make a reservation, waiting for running attempts to release what they did not spend.

        Raises:
            LimitReached: it will not fit, however little the running attempts spend.
        """
        while (reservation := self.try_reserve(cap_usd, spent_usd=spent_usd)) is None:
            needed = _needed(cap_usd, spent_usd)
            if self._limit is not None and (self._spent + needed > self._limit or not self._reservations):
                wanted = self.spent_usd + (0.0 if cap_usd is None else needed / _UNITS)
                raise LimitReached("run cost", value=wanted, limit=self._limit / _UNITS)
            await self._changed.wait()
        return reservation

    def correct(self, usd: float) -> None:
        """What was charged before was too little, or, below zero, too much: now more is known of it."""
        self._charge(_units(usd))

    def _reserved(self) -> int:
        return sum(reservation.remaining_units for reservation in self._reservations)

    def _charge(self, amount: int) -> None:
        self._spent += amount
        self._notify()

    def _release(self, reservation: "BudgetReservation") -> None:
        self._reservations.discard(reservation)
        self._notify()

    def _notify(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()


class BudgetCopy(RunBudget):
    """A run's budget as one of several machines knows it that spend of it.

    Reservations are made where the budget itself is kept, so that none is refused here. Requests are, as soon as it is
    known that the budget is spent.
    """

    def try_reserve(self, cap_usd: float | None = None, *, spent_usd: float = 0.0) -> "BudgetReservation":
        """A reservation that was made where the budget is kept."""
        reservation = BudgetReservation(self, cap_usd, spent_usd)
        self._reservations.add(reservation)
        return reservation

    def update(self, spent_usd: float) -> None:
        """All machines together have spent so much."""
        self._spent = max(self._spent, _units(spent_usd))


class BudgetReservation:
    """One attempt's part of a run's budget, reserved until it is released."""

    def __init__(self, budget: RunBudget, cap_usd: float | None, spent_usd: float = 0.0) -> None:
        self._budget = budget
        self._cap = None if cap_usd is None else _units(cap_usd)
        self._spent = _units(spent_usd)

    @property
    def has_limit(self) -> bool:
        """Whether any limit applies, the task's or the run's."""
        return self._cap is not None or self._budget.limit_usd is not None

    @property
    def spent_usd(self) -> float:
        """What the trial has spent, earlier attempts included."""
        return self._spent / _UNITS

    @property
    def remaining_units(self) -> int:
        """What is still reserved, in the budget's units; without a cap, nothing is."""
        return 0 if self._cap is None else max(self._cap - self._spent, 0)

    def charge(self, usd: float) -> None:
        """Charge the cost of a response."""
        amount = _units(usd)
        self._spent += amount
        self._budget._charge(amount)  # noqa: SLF001 - part of its budget

    def release(self) -> None:
        """Release what was reserved and not spent. What is charged later still counts for the run."""
        self._budget._release(self)  # noqa: SLF001 - likewise

    def exhausted_budget(self) -> ExhaustedBudget | None:
        """The limit that forbids one more request, if there is one."""
        if self._cap is not None and self._spent >= self._cap:
            return ExhaustedBudget(cause=Cause.TASK_BUDGET, value_usd=self.spent_usd, limit_usd=self._cap / _UNITS)
        if self._budget.exhausted:
            limit = self._budget.limit_usd or 0.0
            return ExhaustedBudget(cause=Cause.RUN_BUDGET, value_usd=self._budget.spent_usd, limit_usd=limit)
        return None


def _needed(cap_usd: float | None, spent_usd: float) -> int:
    """What a new reservation takes: what is left of its cap; without a cap, more than nothing."""
    return 1 if cap_usd is None else max(_units(cap_usd) - _units(spent_usd), 0)


def _units(usd: float) -> int:
    return round(usd * _UNITS)
