"""What the roles of a team did, over the answers of a run."""

from proctor.analysis.observation import Observation
from proctor.core.record import Record


class RoleStats(Record):
    """What the agents of one role did, over all answers of a run; the cost is None when a price is unknown."""

    role: str
    members: int = 0
    cost_usd: float | None = 0.0
    active_seconds: float = 0.0
    idle_seconds: float = 0.0
    turns: int = 0
    messages: int = 0
    compactions: int = 0

    @property
    def idle_share(self) -> float | None:
        """How much of its time it waited."""
        whole = self.active_seconds + self.idle_seconds
        return self.idle_seconds / whole if whole else None


def add_roles(found: dict[str, RoleStats], observation: Observation) -> None:
    """Add what each role did in one answer, in the order in which roles come. Who has no role goes by its name."""
    for member in observation.metrics.members:
        role = member.role or member.name
        known = found.get(role) or RoleStats(role=role)
        costs = [usage.cost_usd for usage in member.usage]
        cost = None if None in costs else sum(price for price in costs if price is not None)
        found[role] = RoleStats(
            role=role,
            members=known.members + 1,
            cost_usd=None if known.cost_usd is None or cost is None else known.cost_usd + cost,
            active_seconds=known.active_seconds + member.active_seconds,
            idle_seconds=known.idle_seconds + member.idle_seconds,
            turns=known.turns + member.turns,
            messages=known.messages + member.messages,
            compactions=known.compactions + member.compactions,
        )
