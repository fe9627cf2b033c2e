"""Tools that the provider executes: with them an agent reaches the web, whatever network its environment has.

Each dialect states here what its requests look like that want one. The rule is the other way round than a list of such
tools: a tool with a type is the provider's unless it is known to be executed by the client, so that a new one is not
missed.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from msgspec import Raw

from proctor.gateway.safe_json import decode_or_text

# Tools of the Messages API that the client executes; the last one searches the tools of the request itself.
_CLIENT_TOOLS: Final = re.compile(
    r"custom|(?:bash|text_editor|computer|memory|tool_search_tool(?:_[a-z0-9]+)?)(?:_\d{8})?"
)
_TOOL_NAME: Final = re.compile(r"[\w.-]{1,64}")
# How content that the provider fetches may be spelt. An escape could hide it: such a message is decoded.
_URL_SIGNS: Final = (b'"url"', b"\\u00")


def messages_server_tools(tools: Iterable[Any], mcp_servers: Raw, messages: Sequence[Raw]) -> tuple[str, ...]:
    """What a request to the Messages API wants the provider to execute or to fetch, for an error message.

    Args:
        tools: the `type` of each tool; None where it has none.
        mcp_servers: the member of that name; empty where there is none.
        messages: the conversation.
    """
    found = [_shown(kind) for kind in tools if kind is not None and not _is_client_tool(kind)]
    if bytes(mcp_servers) and decode_or_text(mcp_servers):
        found.append("mcp_servers")
    if any(_wants_url(message) for message in messages):
        found.append("content from a URL")
    return tuple(dict.fromkeys(found))


def is_remote_work(method: str, path: str) -> bool:
    """Whether a request that is none to a model may start work at the provider: a batch, a container, an agent there.

    A login may be renewed there, and tokens counted.
    """
    name = path.partition("?")[0].lower()
    harmless = name == "/v1/messages/count_tokens" or name.startswith("/v1/oauth/")
    return method not in {"GET", "HEAD"} and name.startswith("/v1/") and not harmless


def _is_client_tool(kind: Any) -> bool:
    return isinstance(kind, str) and _CLIENT_TOOLS.fullmatch(kind) is not None


def _shown(kind: Any) -> str:
    """A tool's type as it may stand in a message: it is the agent's own text."""
    return kind if isinstance(kind, str) and _TOOL_NAME.fullmatch(kind) else "a tool of another type"


def _wants_url(message: Raw) -> bool:
    """Whether a message has an image or a document that the provider is to fetch."""
    data = bytes(message)
    if not any(sign in data for sign in _URL_SIGNS):
        return False
    decoded = decode_or_text(message)
    content = decoded.get("content") if isinstance(decoded, dict) else decoded
    return any(_is_url(source) for source in _sources(content))


def _is_url(source: Any) -> bool:
    return isinstance(source, dict) and (source.get("type") == "url" or "url" in source)


def _sources(content: Any) -> Iterator[Any]:
    """The sources of all blocks, those inside of tool results and documents included."""
    if isinstance(content, list):
        for item in content:
            yield from _sources(item)
    elif isinstance(content, dict):
        if content.get("type") == "tool_use":
            return  # its input is the tool's own, and goes to no one
        if "source" in content:
            yield content["source"]
            yield from _sources(content["source"])
        yield from _sources(content.get("content"))
