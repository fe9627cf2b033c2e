"""What each agent used: the gateway's numbers, beside what is known of the agent by its own program."""

from typing import Final

import msgspec

from proctor.core.result import Member
from proctor.gateway import GatewayUsage

UNNAMED_AGENT: Final = "(unnamed)"


def add_member_usage(members: tuple[Member, ...], usage: GatewayUsage) -> tuple[Member, ...]:
    """The members with what they used. All that was used is somebody's: a lone member's, or that of a stranger."""
    if len(members) == 1:
        (alone,) = members
        return (
            msgspec.structs.replace(
                alone, usage=usage.models, turns=usage.turns, compactions=max(usage.compactions, alone.compactions)
            ),
        )
    by_name = {entry.agent: entry for entry in usage.agents}
    known = []
    for member in members:
        entry = by_name.pop(member.name, None)
        if entry is not None:
            member = msgspec.structs.replace(  # noqa: PLW2901 - the same one, better known
                member,
                usage=entry.models,
                turns=entry.turns,
                compactions=max(entry.compactions, member.compactions),
            )
        known.append(member)
    if not members:
        return ()
    strangers = (
        Member(name=entry.agent or UNNAMED_AGENT, usage=entry.models, turns=entry.turns, compactions=entry.compactions)
        for entry in by_name.values()
        if entry.models
    )
    return (*known, *strangers)
