"""Tools that the provider executes: with them an agent reaches the web, whatever network its environment has.

Each dialect states here what its requests look like that want one. The rule is the other way round than a list of such
tools: a tool with a type is the provider's unless it is known to be executed by the client, so that a new one is not
missed.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from msgspec import Raw

from proctor.gateway.safe_json import decode_or_text

# Tools of the Messages API that the client executes; the last one searches the tools of the request itself.
_CLIENT_TOOLS: Final = re.compile(
    r"custom|(?:bash|text_editor|computer|memory|tool_search_tool(?:_[a-z0-9]+)?)(?:_\d{8})?"
)
_CHAT_CLIENT_TOOLS: Final = frozenset({"function", "custom", None})
# Those of the Responses API; `tool_search` searches the tools of the request itself.
_RESPONSES_CLIENT_TOOLS: Final = re.compile(
    r"function|custom|local_shell|apply_patch|tool_search|computer(?:_use)?(?:_preview)?"
)
_GEMINI_CLIENT_TOOLS: Final = frozenset(
    {"functionDeclarations", "function_declarations", "computerUse", "computer_use"}
)
_SEARCH_MODEL: Final = re.compile(r"-search(?:-|$)|:online$|(?:^|/)(?:sonar|compound)(?:-|$)|-deep-research(?:-|$)")
_TOOL_NAME: Final = re.compile(r"[\w.-]{1,64}")


def messages_server_tools(tools: Iterable[Any], mcp_servers: Raw) -> list[str]:
    """What a request to the Messages API wants the provider to execute, for an error message.

    Args:
        tools: the `type` of each tool; None where it has none.
        mcp_servers: the member of that name; empty where there is none.
    """
    found = [_shown(kind) for kind in tools if kind is not None and not _matches(_CLIENT_TOOLS, kind)]
    return found + (["mcp_servers"] if bytes(mcp_servers) and decode_or_text(mcp_servers) else [])


def chat_server_tools(model: str, tools: Iterable[Any], options: Mapping[str, Raw]) -> list[str]:
    """What a request for a chat completion wants the provider to execute.

    Args:
        model: some search the web by themselves.
        tools: the `type` of each tool; None where it has none.
        options: members that ask for a tool of the provider, if with an empty object; empty where they are not there.
    """
    found = [_shown(kind) for kind in tools if not _is_one_of(_CHAT_CLIENT_TOOLS, kind)]
    found += [
        name for name, value in options.items() if bytes(value) and decode_or_text(value) not in (None, [], False)
    ]
    return found + (["a model that searches the web"] if _SEARCH_MODEL.search(model) else [])


def responses_server_tool(kind: Any, environment: Any) -> str | None:
    """A tool of a request to the Responses API, if the provider executes it.

    Args:
        kind: its `type`.
        environment: the member of that name: a shell may be the client's or the provider's.
    """
    if kind == "shell":
        is_client = isinstance(environment, dict) and environment.get("type") == "local"
    else:
        is_client = _matches(_RESPONSES_CLIENT_TOOLS, kind)
    return None if is_client else _shown(kind)


def gemini_server_tools(names: Iterable[str]) -> list[str]:
    """What a request to the Gemini API wants the provider to execute: each tool has its name as a key."""
    return [_shown(name) for name in names if name not in _GEMINI_CLIENT_TOOLS]


def is_remote_work(method: str, path: str) -> bool:
    """Whether a request that is none to a model may start work at the provider: a batch, a container, an agent there.

    A login may be renewed there, and tokens counted.
    """
    name = path.partition("?")[0].lower()
    harmless = name == "/v1/messages/count_tokens" or name.startswith("/v1/oauth/")
    return method not in {"GET", "HEAD"} and name.startswith("/v1/") and not harmless


def _matches(names: re.Pattern[str], kind: Any) -> bool:
    return isinstance(kind, str) and names.fullmatch(kind) is not None


def _is_one_of(names: frozenset[str | None], kind: Any) -> bool:
    return (kind is None or isinstance(kind, str)) and kind in names


def _shown(kind: Any) -> str:
    """A tool's type as it may stand in a message: it is the agent's own text."""
    return kind if isinstance(kind, str) and _TOOL_NAME.fullmatch(kind) else "a tool of another type"
