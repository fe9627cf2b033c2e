"""Counts what a session used: tokens by class, per model and per conversation, and its errors. It does no I/O."""

from collections import Counter, defaultdict
from collections.abc import Iterable
from http import HTTPStatus
from typing import Final

import msgspec

from proctor.core.record import Record
from proctor.core.result import ModelUsage, Tokens, sum_costs
from proctor.gateway.model_call import Role
from proctor.gateway.prices import Prices, Usage

# Names that agents send are stored, so their length and number are limited.
_MAX_NAMES: Final = 100
_MAX_NAME_LENGTH: Final = 128


class UsageAccumulator:
    """Collects the usage of one response. Reports are cumulative, so a later one replaces an earlier one.

    Attributes:
        model: that responds, as far as is known.
        speed: as far as is known: what the request asks for, until the response says otherwise.
        unreported_bytes: of what the model wrote, since the last report.
    """

    def __init__(self, model: str, speed: str | None = None) -> None:
        self.model = model
        self.speed = speed
        self.unreported_bytes = 0
        self._final = False
        self._usages: tuple[Usage, ...] = ()

    @property
    def has_usage(self) -> bool:
        """Whether anything was reported."""
        return bool(self._usages)

    @property
    def is_partial(self) -> bool:
        """Whether the model has written more after a report that was not of all of it."""
        return self.has_usage and not self._final and self.unreported_bytes > 0

    def add_delivered(self, length: int) -> None:
        """So many bytes of what the model wrote have arrived, and no report of their usage yet."""
        self.unreported_bytes += length

    def report(self, usages: tuple[Usage, ...], *, final: bool) -> None:
        """What was used so far, by model, that of the response first; `final`: all that has arrived is in it.

        No response takes no tokens at all: such a report says nothing.
        """
        if not any(usage.tokens.total for usage in usages):
            return
        self._usages = usages
        self._final = final
        self.unreported_bytes = 0

    def total(self, unreported: int | None = None) -> tuple[Usage, ...]:
        """What was used, by model; empty when nothing was reported.

        `unreported`: the response broke off, and so much output at most is not in the provider's last report.
        """
        if unreported is None or not self._usages:
            return self._usages
        first, *others = self._usages
        more = first.tokens + Tokens(output=unreported)
        estimated = unreported > 0 or not self._final
        return (msgspec.structs.replace(first, tokens=more, estimated=estimated), *others)


class ExchangeOutcome(Record):
    """One finished exchange, as the meter sees it.

    Attributes:
        status: of the response; None when there was none.
        cut: the response broke off.
        usages: what it used; estimates where the provider's report is missing.
        errors: the statuses of earlier tries at the provider (0: no connection), made by the gateway.
        malformed: how many events of its stream were no JSON.
    """

    conversation: str
    role: Role
    model: str
    status: int | None
    agent: str = ""
    usages: tuple[Usage, ...] = ()
    cost_usd: float | None = 0.0
    cut: bool = False
    errors: tuple[int, ...] = ()
    malformed: int = 0


class ConversationUsage(Record):
    """What one conversation used: a main thread, one sub-agent, the side calls; compactions are separate."""

    conversation: str
    role: Role
    agent: str
    requests: int
    tokens: Tokens
    cost_usd: float | None


class AgentUsage(Record):
    """What one agent of a pod used, as its base URL names it; the empty name is of requests that name none."""

    agent: str
    models: tuple[ModelUsage, ...]
    turns: int
    compactions: int


class GatewayUsage(Record):
    """What a session has used so far.

    Attributes:
        requests: model requests that were not refused.
        retries: tries at the provider beyond the first of each request.
        errors: responses other than 200, by status, including those that were retried; "0" is no connection.
        cut: responses that broke off.
        refused: requests that the gateway refused: budget spent, or model without a price.
        pinned: requests to other models than the run's, by the model that was asked for.
        unsupported: requests that the gateway refused for what they asked for, such as several answers at once.
        dropped: requests that were sent without something that they asked for, by what it was.
        web_refused: requests that the gateway refused because the provider was to execute a tool for them.
        turns: responses in main threads; compactions and side calls are not turns.
        cost_usd: None when anything that was used has no known price.
    """

    models: tuple[ModelUsage, ...] = ()
    conversations: tuple[ConversationUsage, ...] = ()
    agents: tuple[AgentUsage, ...] = ()
    tokens: Tokens = Tokens()
    cost_usd: float | None = 0.0
    requests: int = 0
    retries: int = 0
    errors: dict[str, int] = msgspec.field(default_factory=dict)
    cut: int = 0
    refused: int = 0
    pinned: dict[str, int] = msgspec.field(default_factory=dict)
    unsupported: dict[str, int] = msgspec.field(default_factory=dict)
    dropped: dict[str, int] = msgspec.field(default_factory=dict)
    web_refused: int = 0
    turns: int = 0
    compactions: int = 0
    web_searches: int = 0


class _RunningTotal:
    """A running total."""

    def __init__(self) -> None:
        self.requests = 0
        self.tokens = Tokens()
        self.cost: float | None = 0.0
        self.estimated_requests = 0
        self.estimated_cost = 0.0

    def add(self, tokens: Tokens, cost: float | None, *, estimated: bool = False) -> None:
        self.requests += 1
        self.tokens += tokens
        self.cost = sum_costs((self.cost, cost))
        if estimated:
            self.estimated_requests += 1
            self.estimated_cost = round(self.estimated_cost + (cost or 0.0), 12)


class Meter:
    """Adds up the exchanges of one session."""

    def __init__(self, prices: Prices) -> None:
        self._prices = prices
        self._models: defaultdict[str, _RunningTotal] = defaultdict(_RunningTotal)
        self._conversations: defaultdict[tuple[str, Role, str], _RunningTotal] = defaultdict(_RunningTotal)
        self._agents: defaultdict[str, defaultdict[str, _RunningTotal]] = defaultdict(
            lambda: defaultdict(_RunningTotal)
        )
        self._roles: Counter[tuple[str, Role]] = Counter()
        self._errors: Counter[str] = Counter()
        self._counts: Counter[str] = Counter()
        self._pinned: Counter[str] = Counter()
        self._unsupported: Counter[str] = Counter()
        self._dropped: Counter[str] = Counter()

    @property
    def whole_turns(self) -> int:
        """Responses in main threads so far that did not break off: an agent asks again for one that did."""
        return self._counts["whole_turns"]

    def cost(self, usages: tuple[Usage, ...]) -> float | None:
        """What a response cost; None when any part of it has no price."""
        return sum_costs(self._prices.cost(usage) for usage in usages)

    def add_refusal(self, *, web: bool = False) -> None:
        """Count a request that was refused; `web`: because of a tool that the provider executes."""
        self._counts["web_refused" if web else "refused"] += 1

    def add_pinned(self, model: str) -> None:
        """Count a request that was sent to the run's model instead of this one."""
        known = model in self._pinned or len(self._pinned) < _MAX_NAMES
        self._pinned[model[:_MAX_NAME_LENGTH] if known else "others"] += 1

    def add_unsupported(self, wanted: Iterable[str]) -> None:
        """Count a request that was refused because of what it asked for."""
        self._unsupported.update(wanted)

    def add_dropped(self, names: Iterable[str]) -> None:
        """Count a request that is sent without these of its members."""
        self._dropped.update(names)

    def add(self, outcome: ExchangeOutcome) -> None:
        """Count one finished exchange."""
        self._counts["requests"] += 1
        self._counts["cut"] += outcome.cut
        for status in outcome.errors:
            self._counts["retries"] += 1
            self._errors[str(status)] += 1
        succeeded = outcome.status == HTTPStatus.OK
        if outcome.status is not None and not succeeded:
            self._errors[str(outcome.status)] += 1
        if succeeded:
            self._roles[outcome.agent, outcome.role] += 1
            self._counts["turns"] += outcome.role is Role.MAIN
            self._counts["whole_turns"] += outcome.role is Role.MAIN and not outcome.cut
            self._counts["compactions"] += outcome.role is Role.COMPACTION
        models = self._agents[outcome.agent]
        for usage in outcome.usages:
            self._counts["web_searches"] += usage.web_searches
            cost = self._prices.cost(usage)
            for sums in (self._models, models):
                sums[usage.model].add(usage.tokens, cost, estimated=usage.estimated)
        key = (outcome.conversation, outcome.role, outcome.agent)
        tokens = sum((usage.tokens for usage in outcome.usages), Tokens())
        self._conversations[key].add(tokens, outcome.cost_usd)

    def snapshot(self) -> GatewayUsage:
        """The totals so far."""
        return GatewayUsage(
            models=_by_model(self._models),
            agents=tuple(
                AgentUsage(
                    agent=agent,
                    models=_by_model(models),
                    turns=self._roles[agent, Role.MAIN],
                    compactions=self._roles[agent, Role.COMPACTION],
                )
                for agent, models in sorted(self._agents.items())
            ),
            conversations=tuple(
                ConversationUsage(
                    conversation=conversation,
                    role=role,
                    agent=agent,
                    requests=entry.requests,
                    tokens=entry.tokens,
                    cost_usd=entry.cost,
                )
                for (conversation, role, agent), entry in self._conversations.items()
            ),
            tokens=sum((entry.tokens for entry in self._models.values()), Tokens()),
            cost_usd=sum_costs(entry.cost for entry in self._models.values()),
            requests=self._counts["requests"],
            retries=self._counts["retries"],
            errors=dict(sorted(self._errors.items())),
            cut=self._counts["cut"],
            refused=self._counts["refused"],
            pinned=dict(sorted(self._pinned.items())),
            unsupported=dict(sorted(self._unsupported.items())),
            dropped=dict(sorted(self._dropped.items())),
            web_refused=self._counts["web_refused"],
            turns=self._counts["turns"],
            compactions=self._counts["compactions"],
            web_searches=self._counts["web_searches"],
        )


def _by_model(sums: dict[str, _RunningTotal]) -> tuple[ModelUsage, ...]:
    return tuple(
        ModelUsage(
            model=name,
            requests=entry.requests,
            tokens=entry.tokens,
            cost_usd=entry.cost,
            estimated_requests=entry.estimated_requests,
            estimated_usd=entry.estimated_cost,
        )
        for name, entry in sorted(sums.items())
    )
