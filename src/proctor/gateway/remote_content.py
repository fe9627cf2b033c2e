"""Content of a conversation that the provider would fetch: with it an agent reaches the web, as with a hosted tool.

Most conversations have none. The types below describe messages without any, as far as a message can have some: what
does not fit is searched member by member. So a long conversation is read once, by the decoder. Its hundreds of objects
live for a moment, and the garbage collector does not look at them.
"""

import re
from collections.abc import Iterable, Iterator
from typing import Annotated, Any, Final

from msgspec import Meta, Raw, Struct, field

from proctor.gateway.safe_json import decode_or_text

FROM_URL: Final = "content from a URL"

_REMOTE_URL: Final = r"\s*(?!data:)[a-z][a-z0-9+.-]*:"
_IS_REMOTE_URL: Final = re.compile(_REMOTE_URL, re.IGNORECASE)
# Members in which a message of the dialects other than Messages has the address of an image, a sound or a file: by
# itself, in an object, or with those of the other images of a film.
_REMOTE_MEMBERS: Final = frozenset(
    {
        *("image_url", "file_url", "video_url", "audio_url", "fileUri", "file_uri"),
        *("file_data", "input_audio", "video"),
    }
)
_ADDRESSES: Final = ("url", "data")
# What the model gives to a tool, and gets from it, goes to no one.
_OWN_MEMBERS: Final = frozenset({"args", "arguments", "response"})

_NotRemote = Annotated[str, Meta(pattern=f"^(?i:(?!{_REMOTE_URL}))")]


class _PlainUrl(Struct, gc=False):
    url: _NotRemote | None = None


class _PlainAudio(Struct, gc=False):
    url: None = None
    data: _NotRemote | None = None


class _PlainFile(Struct, gc=False):
    file_data: _NotRemote | None = None
    file_url: None = None


class PlainPart(Struct, gc=False):
    """A part of a message in OpenAI's dialects."""

    image_url: _NotRemote | _PlainUrl | None = None
    file_url: _NotRemote | None = None
    video_url: _NotRemote | _PlainUrl | None = None
    audio_url: _NotRemote | _PlainUrl | None = None
    input_audio: _PlainAudio | None = None
    video: None = None
    file_data: _NotRemote | None = None
    file: _PlainFile | None = None


class PlainMessage(Struct, gc=False):
    """A message of Chat Completions."""

    content: str | list[PlainPart] | None = None


class _PlainFunctionResponse(Struct, gc=False):
    parts: None = None


class _PlainGeminiPart(Struct, gc=False):
    camel_file: None = field(name="fileData", default=None)
    snake_file: None = field(name="file_data", default=None)
    camel_response: _PlainFunctionResponse | None = field(name="functionResponse", default=None)
    snake_response: _PlainFunctionResponse | None = field(name="function_response", default=None)


class PlainContent(Struct, gc=False):
    """A content of the Gemini API."""

    parts: list[_PlainGeminiPart] | _PlainGeminiPart | None = None


class _PlainSource(Struct, gc=False):
    type: Annotated[str, Meta(pattern="^(?!url$)")] | None = None
    url: None = None
    content: "str | list[PlainBlock] | None" = None


class PlainBlock(Struct, gc=False):
    """A message of the Messages API, or a block of one."""

    source: str | _PlainSource | None = None
    content: "str | list[PlainBlock] | None" = None


def fetches_content(messages: Iterable[Raw]) -> bool:
    """Whether messages of the dialects other than Messages have an image or a file that the provider is to fetch."""
    urls = (url for message in messages for url in _remote_urls(decode_or_text(message)))
    return any(_IS_REMOTE_URL.match(url) for url in urls)


def messages_fetch_content(messages: Iterable[Raw]) -> bool:
    """Whether messages of the Messages API have an image or a document that the provider is to fetch."""
    for message in messages:
        decoded = decode_or_text(message)
        content = decoded.get("content") if isinstance(decoded, dict) else decoded
        if any(_is_url(source) for source in _sources(content)):
            return True
    return False


def _remote_urls(value: Any) -> Iterator[str]:
    if isinstance(value, list):
        for item in value:
            yield from _remote_urls(item)
    elif isinstance(value, dict):
        for name, inner in value.items():
            if name in _OWN_MEMBERS:
                continue
            if name in _REMOTE_MEMBERS:
                found = inner if isinstance(inner, list) else [inner]
                if isinstance(inner, dict):
                    found = [inner.get(one) for one in _ADDRESSES]
                yield from (url for url in found if isinstance(url, str))
            yield from _remote_urls(inner)


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
