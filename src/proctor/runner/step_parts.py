"""What belongs to an agent's work on one instruction: its user's folders, its usage, and what it could not use."""

import os
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from proctor.core.agent import Agent
from proctor.core.environment import AgentUser, Environment
from proctor.core.result import ModelUsage, Tokens
from proctor.core.run import RunConfig
from proctor.core.task import Task
from proctor.core.verdict import Finding


@asynccontextmanager
async def owned_by(environment: Environment, user: AgentUser | None, folders: Sequence[str]) -> AsyncIterator[None]:
    """Let a user own folders that the environment shares with this machine, which gets them back at the end."""
    if user is None or not folders:
        yield
        return
    await environment.exec(["chown", "-R", user.name, *folders], cwd="/")
    try:
        yield
    finally:
        await environment.exec(["chown", "-R", f"{os.getuid()}:{os.getgid()}", *folders], cwd="/")


def unused_parts(task: Task, agent: Agent | None, config: RunConfig) -> tuple[Finding, ...]:
    """What a task brings for its agent, or the run asks of it, and this agent cannot use."""
    if agent is None:
        return ()
    public = task.public
    unused = {
        "MCP servers": public.mcp_servers and not agent.uses_mcp_servers,
        "skills": public.skills_dir and not agent.uses_skills,
        "one conversation for all steps": public.steps and config.one_conversation and not agent.resumes,
    }
    return tuple(
        Finding(code="not_used_by_agent", path=what, detail=f"the agent {agent.name} does not use it: {what}")
        for what, is_unused in unused.items()
        if is_unused
    )


def usage_between(before: Sequence[ModelUsage], after: Sequence[ModelUsage]) -> tuple[ModelUsage, ...]:
    """What was used between two readings of a meter, by model; models that were not used in between are left out."""
    known = {usage.model: usage for usage in before}
    found = []
    for usage in after:
        start = known.get(usage.model) or ModelUsage(model=usage.model, requests=0, tokens=Tokens(), cost_usd=0.0)
        if usage.requests == start.requests and usage.tokens == start.tokens:
            continue
        cost = None if usage.cost_usd is None or start.cost_usd is None else usage.cost_usd - start.cost_usd
        found.append(
            ModelUsage(
                model=usage.model,
                requests=usage.requests - start.requests,
                tokens=_difference(usage.tokens, start.tokens),
                cost_usd=None if cost is None else round(cost, 12),
                estimated_requests=usage.estimated_requests - start.estimated_requests,
                estimated_usd=round(usage.estimated_usd - start.estimated_usd, 12),
            )
        )
    return tuple(found)


def _difference(after: Tokens, before: Tokens) -> Tokens:
    names = Tokens.__struct_fields__
    return Tokens(**{name: getattr(after, name) - getattr(before, name) for name in names})
