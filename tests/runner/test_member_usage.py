from proctor.core.result import Member, ModelUsage, Tokens
from proctor.gateway import GatewayUsage, Prices
from proctor.gateway.meter import ExchangeOutcome, Meter
from proctor.gateway.model_call import Role
from proctor.gateway.prices import Usage
from proctor.runner.member_usage import UNNAMED_AGENT, add_member_usage

MODEL = "claude-sonnet-4-5"


def used(*agents: str) -> GatewayUsage:
    meter = Meter(Prices.load())
    for agent in agents:
        usage = Usage(model=MODEL, tokens=Tokens(input=100, output=10))
        cost = meter.cost((usage,))
        outcome = ExchangeOutcome(
            conversation="main", role=Role.MAIN, model=MODEL, status=200, agent=agent, usages=(usage,), cost_usd=cost
        )
        meter.add(outcome)
    return meter.snapshot()


def requests(member: Member) -> int:
    return sum(usage.requests for usage in member.usage)


def test_every_member_is_given_what_was_asked_for_in_its_name() -> None:
    members = (Member(name="lead"), Member(name="coder"), Member(name="idler"))
    found = add_member_usage(members, used("lead", "coder", "coder"))
    assert [(member.name, requests(member), member.turns) for member in found] == [
        ("lead", 1, 1),
        ("coder", 2, 2),
        ("idler", 0, 0),
    ]


def test_usage_without_a_member_name_is_counted() -> None:
    usage = used("lead", "", "stranger")
    found = add_member_usage((Member(name="lead"), Member(name="coder")), usage)
    assert [member.name for member in found] == ["lead", "coder", UNNAMED_AGENT, "stranger"]
    total = sum((entry.tokens for member in found for entry in member.usage), Tokens())
    assert total == usage.tokens


def test_a_lone_member_used_everything() -> None:
    usage = used("", "", "a helper of its own")
    (alone,) = add_member_usage((Member(name="claude_code", compactions=2),), usage)
    assert (
        alone.usage
        == usage.models
        == (ModelUsage(model=MODEL, requests=3, tokens=Tokens(input=300, output=30), cost_usd=alone.usage[0].cost_usd),)
    )
    assert (alone.turns, alone.compactions) == (3, 2)


def test_an_agent_that_tells_of_no_member_has_none() -> None:
    assert add_member_usage((), used("")) == ()
