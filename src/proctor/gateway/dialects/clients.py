"""What the programs of agents reveal of their requests, whatever dialect they are in."""

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from proctor.gateway.model_call import MAX_ID_LENGTH, Role
from proctor.gateway.safe_json import DECODE_ERRORS

# Programs that always work with tools: a request without any is a side call, such as one for a title.
_WORKS_WITH_TOOLS: Final = re.compile(
    r"^(?:opencode|GeminiCLI|QwenCode|codex|copilot|GitHubCopilot|factory-cli|droid|kimi(?:cli)?|cline|pi)\b",
    re.IGNORECASE,
)
CLAUDE_CODE_SESSION: Final = "x-claude-code-session-id"
_CLAUDE_CODE_SUBAGENT: Final = "x-claude-code-agent-id"
_SESSION_HEADERS: Final = ("session-id", "x-session-id", "x-session-affinity")
# OpenCode's sub-agents have sessions of their own, and name the one that has started them.
_PARENT_HEADER: Final = "x-parent-session-id"


class ClientInfo(msgspec.Struct, frozen=True):
    """Which of a program's sessions a request belongs to, and what it is for."""

    session_id: str
    subagent_id: str
    role: Role


class _CodexMetadata(msgspec.Struct):
    request_kind: str | None = None
    thread_source: Any = None
    thread_id: str | None = None
    session_id: str | None = None


_CODEX: Final = msgspec.json.Decoder(_CodexMetadata)


def client_info(headers: Mapping[str, str], tools: Iterable[str]) -> ClientInfo:
    """What the headers of a request, and whether it has tools, say of it."""
    claude, spawned = (headers.get(name, "")[:MAX_ID_LENGTH] for name in (CLAUDE_CODE_SESSION, _CLAUDE_CODE_SUBAGENT))
    if claude or spawned:
        return ClientInfo(claude, spawned, Role.SUBAGENT if spawned else Role.MAIN)
    session = next((headers[name] for name in _SESSION_HEADERS if headers.get(name)), "")[:MAX_ID_LENGTH]
    if (codex := _codex_info(headers, session)) is not None:
        return codex
    if session and (parent := headers.get(_PARENT_HEADER)):
        return ClientInfo(parent[:MAX_ID_LENGTH], session, Role.SUBAGENT)
    side = not tuple(tools) and _WORKS_WITH_TOOLS.match(headers.get("user-agent", "")) is not None
    return ClientInfo(session, "", Role.SIDE if side else Role.MAIN)


def _codex_info(headers: Mapping[str, str], session: str) -> ClientInfo | None:
    """Codex describes each request in a header. Its sub-agents have threads of their own."""
    text = headers.get("x-codex-turn-metadata")
    if text is None:
        return None
    try:
        described = _CODEX.decode(text.encode("latin-1", "replace"))
    except DECODE_ERRORS:
        described = _CodexMetadata()
    thread = (described.thread_id or headers.get("thread-id", ""))[:MAX_ID_LENGTH]
    spawned = described.thread_source == "subagent" or "x-openai-subagent" in headers
    subagent = thread if spawned else ""
    if described.request_kind == "compaction":
        return ClientInfo(session, subagent, Role.COMPACTION)
    return ClientInfo(session, subagent, Role.SUBAGENT if spawned else Role.MAIN)
