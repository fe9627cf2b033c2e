"""Content that a provider would fetch is found alike by the types of plain messages and by searching."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dialect_lab import NAMES, parsed
from proctor.gateway.remote_content import FROM_URL, fetches_content, messages_fetch_content

MEMBER = {"messages": "messages", "chat": "messages", "responses": "input", "gemini": "contents"}
URLS = st.sampled_from(
    ["https://a.example/x", " http://b", "HTTPS://c", "gs://d", "data:image/png;base64,AA", "DATA:,x", "iVBORw0=", ""]
)
OTHERS = st.none() | st.integers() | st.text(max_size=3) | st.lists(st.text(max_size=3), max_size=2)


def _parts(name: str) -> st.SearchStrategy[dict[str, Any]]:
    match name:
        case "messages":
            source = st.fixed_dictionaries(
                {}, optional={"type": st.sampled_from(["url", "base64", "text"]), "url": URLS}
            )
            return st.fixed_dictionaries(
                {"type": st.sampled_from(["text", "image", "tool_use"])}, optional={"source": source | OTHERS}
            )
        case "gemini":
            file = st.fixed_dictionaries({}, optional={"fileUri": URLS, "file_uri": URLS})
            return st.fixed_dictionaries(
                {}, optional={"text": OTHERS, "fileData": file, "file_data": file, "functionCall": OTHERS}
            )
    url = URLS | st.fixed_dictionaries({"url": URLS}) | OTHERS
    file = st.fixed_dictionaries({}, optional={"file_data": URLS, "file_url": URLS})
    film = URLS | st.lists(URLS, max_size=2) | OTHERS
    sound = st.fixed_dictionaries({}, optional={"data": URLS, "url": URLS}) | OTHERS
    return st.fixed_dictionaries(
        {"type": st.just("x")},
        optional={
            "image_url": url,
            "file_url": URLS,
            "video_url": url,
            "audio_url": url,
            "file": file,
            "input_audio": sound,
            "video": film,
        },
    )


def _messages(name: str) -> st.SearchStrategy[list[dict[str, Any]]]:
    parts = st.lists(_parts(name), max_size=2)
    member = "parts" if name == "gemini" else "content"
    message = st.fixed_dictionaries({"role": st.just("user")}, optional={member: parts | st.text(max_size=5)})
    return st.lists(message, min_size=1, max_size=3)


@pytest.mark.parametrize("name", NAMES)
@given(data=st.data())
def test_plain_messages_have_nothing_that_a_search_would_find(name: str, data: st.DataObject) -> None:
    messages = data.draw(_messages(name))
    raw = [msgspec.Raw(msgspec.json.encode(message)) for message in messages]
    searched = (messages_fetch_content if name == "messages" else fetches_content)(raw)
    fields: dict[str, Any] = {MEMBER[name]: messages}
    assert (FROM_URL in parsed(name, **fields).server_tools) is searched


@pytest.mark.parametrize(
    "part",
    [
        {"type": "audio_url", "audio_url": {"url": "https://a.example/x.wav"}},
        {"type": "input_audio", "input_audio": {"data": "https://a.example/x.wav", "format": "wav"}},
        {"type": "video", "video": ["https://a.example/1.png", "https://a.example/2.png"]},
    ],
)
def test_sounds_and_films_are_fetched_as_images_are(part: dict[str, Any]) -> None:
    message = {"role": "user", "content": [{"type": "text", "text": "look"}, part]}
    assert parsed("chat", messages=[message]).server_tools == (FROM_URL,)
    local = msgspec.json.decode(msgspec.json.encode(message).replace(b"https://a.example/", b"data:audio/wav;base64,"))
    assert parsed("chat", messages=[local]).server_tools == ()
