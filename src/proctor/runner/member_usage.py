"""The usage of each agent of a pod: the gateway's numbers, beside those of the agent's own program."""

from typing import Final

import msgspec

from proctor.core.result import Member
from proctor.gateway import GatewayUsage

UNNAMED_AGENT: Final = "(unnamed)"


def add_member_usage(members: tuple[Member, ...], usage: GatewayUsage) -> tuple[Member, ...]:
    """The members with their usage. What no known member used is a lone member's, or that of an added, unnamed one."""
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
            member = msgspec.structs.replace(  # noqa: PLW2901 - the same one, with its usage
                member,
                usage=entry.models,
                turns=entry.turns,
                compactions=max(entry.compactions, member.compactions),
            )
        known.append(member)
    if not members:
        return ()
    others = (
        Member(name=entry.agent or UNNAMED_AGENT, usage=entry.models, turns=entry.turns, compactions=entry.compactions)
        for entry in by_name.values()
        if entry.models
    )
    return (*known, *others)
