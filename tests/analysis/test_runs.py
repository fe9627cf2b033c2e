import msgspec
import pytest

from observations import config, make_observation
from proctor.analysis.runs import machine_differences, run_row
from proctor.core.machine import Machine
from proctor.core.result import AgentMetrics, Member, ModelUsage, Tokens


def member(name: str, role: str, cost: float | None, active: float, idle: float) -> Member:
    usage = ModelUsage(model="m", requests=1, tokens=Tokens(), cost_usd=cost)
    return Member(name=name, role=role, usage=(usage,), active_seconds=active, idle_seconds=idle, turns=2, messages=3)


def test_roles_are_summed_over_trials() -> None:
    first = AgentMetrics(
        members=(
            member("c", "concierge", 0.5, 10, 90),
            member("x", "coder", 1.0, 60, 40),
            member("y", "coder", 2.0, 50, 50),
        )
    )
    second = AgentMetrics(members=(member("c", "concierge", None, 20, 80), member("solo", "", 1.0, 5, 0)))
    row = run_row(
        config(), [make_observation(task, metrics=metrics) for task, metrics in (("a", first), ("b", second))]
    )
    found = {role.role: role for role in row.roles}
    assert list(found) == ["concierge", "coder", "solo"]
    assert (found["coder"].members, found["coder"].cost_usd, found["coder"].turns) == (2, 3.0, 4)
    assert found["concierge"].cost_usd is None
    assert found["concierge"].idle_share == pytest.approx(0.85)
    assert msgspec.structs.replace(found["solo"], active_seconds=0.0).idle_share is None


def test_nodes_that_differ_are_named_by_what_differs() -> None:
    one = Machine(platform="linux", python="3.11", cpus=8, memory_mb=32000, processor="Xeon", kernel="6.1")
    almost = msgspec.structs.replace(one, memory_mb=31990)
    other = msgspec.structs.replace(one, processor="EPYC", kernel="6.8")
    assert machine_differences([one, almost]) == ()
    assert machine_differences([one, other]) == ("processor", "kernel")
    assert machine_differences([]) == ()
