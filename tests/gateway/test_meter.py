from proctor.core.result import Tokens
from proctor.gateway.meter import ExchangeOutcome, Meter, UsageAccumulator
from proctor.gateway.model_call import Role
from proctor.gateway.prices import Prices, Usage


def test_a_response_that_reported_nothing_used_nothing() -> None:
    assert UsageAccumulator("m").total() == ()


def outcome(model: str = "claude-sonnet-4-5", **fields: object) -> ExchangeOutcome:
    given = {"conversation": "main", "role": Role.MAIN, "model": model, "status": 200, **fields}
    return ExchangeOutcome(**given)  # type: ignore[arg-type]


def test_totals_are_kept_per_model_and_per_conversation() -> None:
    meter = Meter(Prices.load())
    sonnet = (Usage(model="claude-sonnet-4-5", tokens=Tokens(input=1000, output=10)),)
    haiku = (Usage(model="claude-haiku-4-5", tokens=Tokens(input=2000)),)
    meter.add(outcome(usages=sonnet, cost_usd=0.00315))
    meter.add(outcome(usages=sonnet, cost_usd=0.00315))
    meter.add(outcome(usages=haiku, cost_usd=0.002, conversation="subagent-1", role=Role.SUBAGENT))
    meter.add(outcome(usages=sonnet, cost_usd=0.00315, role=Role.COMPACTION))
    usage = meter.snapshot()
    assert [(entry.model, entry.requests, entry.cost_usd) for entry in usage.models] == [
        ("claude-haiku-4-5", 1, 0.002),
        ("claude-sonnet-4-5", 3, 0.00945),
    ]
    assert [(entry.conversation, entry.role, entry.requests) for entry in usage.conversations] == [
        ("main", Role.MAIN, 2),
        ("subagent-1", Role.SUBAGENT, 1),
        ("main", Role.COMPACTION, 1),
    ]
    assert (usage.requests, usage.turns, usage.compactions) == (4, 2, 1)
    assert usage.tokens == Tokens(input=5000, output=30)
    assert usage.cost_usd == 0.01145


def test_one_model_without_a_price_makes_the_total_unknown_and_leaves_the_others_known() -> None:
    meter = Meter(Prices.load())
    meter.add(outcome(usages=(Usage(model="claude-sonnet-4-5", tokens=Tokens(input=1000)),), cost_usd=0.003))
    meter.add(outcome("mystery", usages=(Usage(model="mystery", tokens=Tokens(input=1)),), cost_usd=None))
    usage = meter.snapshot()
    assert usage.cost_usd is None
    assert {entry.model: entry.cost_usd for entry in usage.models} == {"claude-sonnet-4-5": 0.003, "mystery": None}


def test_failures_retries_cuts_and_refusals_are_counted_apart() -> None:
    meter = Meter(Prices.load())
    meter.add(outcome(status=529, errors=(0, 529, 529)))
    meter.add(outcome(status=200, errors=(429,), cut=True))
    meter.add(outcome(status=None, cut=True))
    meter.add_refusal()
    usage = meter.snapshot()
    assert usage.errors == {"0": 1, "429": 1, "529": 3}
    assert (usage.requests, usage.retries, usage.cut, usage.refused, usage.turns) == (3, 4, 2, 1, 1)
    assert usage.models == ()
