"""Tools that the provider executes: with them an agent reaches the web, whatever network its environment has.

Each dialect states here what its requests look like that want one. The rule is the other way round than a list of such
tools: a tool with a type is the provider's unless it is known to be executed by the client, so that a new one is not
missed.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
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
_SEARCH_MODEL: Final = re.compile(r"-search(?:-|$)|:online$")
# Members in which a message of the other dialects has the address of an image or a file.
_REMOTE_MEMBERS: Final = frozenset({"image_url", "file_url", "video_url", "fileUri", "file_uri"})
# How each of them ends, and an escape that could hide it: long messages are searched for few signs.
_REMOTE_SIGNS: Final = (b'_url"', b'ri"', b"\\u00")
_REMOTE_URL: Final = re.compile(r"\s*(?!data:)[a-z][a-z0-9+.-]*:", re.IGNORECASE)
_OWN_MEMBERS: Final = frozenset({"args", "arguments", "response", "functionCall", "functionResponse"})
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


def chat_server_tools(
    model: str, tools: Iterable[Any], options: Mapping[str, Raw], messages: Sequence[Raw]
) -> tuple[str, ...]:
    """What a request for a chat completion wants the provider to execute or to fetch.

    Args:
        model: some search the web by themselves.
        tools: the `type` of each tool; None where it has none.
        options: members that ask for a tool of the provider; empty where they are not there.
        messages: the conversation.
    """
    found = [_shown(kind) for kind in tools if kind not in _CHAT_CLIENT_TOOLS]
    found += [name for name, value in options.items() if bytes(value) and decode_or_text(value)]
    found += ["a model that searches the web"] if _SEARCH_MODEL.search(model) else []
    found += ["content from a URL"] if any(_has_remote_url(message) for message in messages) else []
    return tuple(dict.fromkeys(found))


def responses_server_tools(tools: Iterable[Mapping[str, Any]], items: Sequence[Raw]) -> tuple[str, ...]:
    """What a request to the Responses API wants the provider to execute or to fetch.

    Args:
        tools: each tool, those of namespaces included.
        items: the conversation.
    """
    found = [_shown(tool.get("type")) for tool in tools if not _is_responses_client_tool(tool)]
    found += ["content from a URL"] if any(_has_remote_url(item) for item in items) else []
    return tuple(dict.fromkeys(found))


def gemini_server_tools(tools: Any, contents: Sequence[Raw]) -> tuple[str, ...]:
    """What a request to the Gemini API wants the provider to execute or to fetch: each tool has its name as a key."""
    kinds = [name for tool in _as_list(tools) for name in (tool if isinstance(tool, dict) else [None])]
    found = [_shown(name) for name in kinds if name not in _GEMINI_CLIENT_TOOLS]
    found += ["content from a URL"] if any(_has_remote_url(content) for content in contents) else []
    return tuple(dict.fromkeys(found))


def is_remote_work(method: str, path: str) -> bool:
    """Whether a request that is none to a model may start work at the provider: a batch, a container, an agent there.

    A login may be renewed there, and tokens counted.
    """
    name = path.partition("?")[0].lower()
    harmless = name == "/v1/messages/count_tokens" or name.startswith("/v1/oauth/")
    return method not in {"GET", "HEAD"} and name.startswith("/v1/") and not harmless


def _as_list(value: Any) -> list[Any]:
    if value is None:
        return []
    return value if isinstance(value, list) else [value]


def _is_responses_client_tool(tool: Mapping[str, Any]) -> bool:
    kind = tool.get("type")
    if kind == "shell":
        place = tool.get("environment")
        return isinstance(place, dict) and place.get("type") == "local"
    return isinstance(kind, str) and _RESPONSES_CLIENT_TOOLS.fullmatch(kind) is not None


def _has_remote_url(message: Raw) -> bool:
    """Whether a message of the other dialects has an image or a file that the provider is to fetch."""
    data = bytes(message)
    if not any(sign in data for sign in _REMOTE_SIGNS):
        return False
    return any(_REMOTE_URL.match(url) for url in _remote_urls(decode_or_text(message)))


def _remote_urls(value: Any) -> Iterator[str]:
    if isinstance(value, list):
        for item in value:
            yield from _remote_urls(item)
    elif isinstance(value, dict):
        for name, inner in value.items():
            if name in _OWN_MEMBERS:
                continue  # what the model gives to a tool, and gets from it, goes to no one
            if name in _REMOTE_MEMBERS:
                url = inner.get("url") if isinstance(inner, dict) else inner
                yield from [url] if isinstance(url, str) else []
            yield from _remote_urls(inner)


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
