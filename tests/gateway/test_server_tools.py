from pathlib import Path
from typing import Any

import msgspec
import pytest
from aiohttp import web

from gateway_lab import QUICK, message, parse_call, provider, respond_with, upstream, world
from proctor.core.result import Tokens
from proctor.gateway import ProviderAuth, Upstream, load_recording
from proctor.gateway.server_tools import is_remote_work

LOGIN = {"authorization": "Bearer dummy-own-login-0123456789"}


def wanted(body: bytes | None = None, **fields: Any) -> tuple[str, ...]:
    """What a request wants of the provider beside a response."""
    request = {"model": "m", "messages": [{"role": "user", "content": "hi"}], **fields}
    call = parse_call(body or msgspec.json.encode(request), {})
    assert call is not None
    return call.server_tools


def block(**fields: Any) -> list[dict[str, Any]]:
    return [{"role": "user", "content": [{"type": "text", "text": "look"}, fields]}]


@pytest.mark.parametrize(
    "kind",
    [
        *("web_search_20250305", "web_search_20260209", "web_fetch_20250910", "code_execution_20250825"),
        *(
            "mcp_toolset",
            "advisor_20260301",
            "something_new_20300101",
            "customs",
            "memory_20250818x",
            "x" * 200,
        ),
    ],
)
def test_a_tool_with_a_type_is_the_providers_unless_it_is_known_to_be_the_clients(kind: str) -> None:
    found = wanted(tools=[{"name": "Bash", "input_schema": {}}, {"type": kind, "name": "Bash"}])
    assert len(found) == 1
    assert len(found[0]) < 100


@pytest.mark.parametrize("kind", ["bash_20250124", "text_editor_20250728", "computer_20251124", "memory_20250818"])
def test_tools_that_the_client_executes_are_its_own(kind: str) -> None:
    own = [{"name": "Bash"}, {"type": "custom", "name": "Edit"}, {"type": None, "name": "Read"}]
    search = {"type": "tool_search_tool_regex_20251119", "name": "tool_search_tool_regex"}
    assert wanted(tools=[*own, {"type": kind, "name": "x"}, search], mcp_servers=[]) == ()


@pytest.mark.parametrize("kind", [5, ["web_search_20250305"], {"a": 1}, True, "", "WEB_SEARCH", "custom\n"])
def test_a_type_that_is_none_is_not_the_clients(kind: Any) -> None:
    assert wanted(tools=[{"type": kind, "name": "x"}]) == (kind if kind == "WEB_SEARCH" else "a tool of another type",)


def test_hosted_mcp_servers_are_the_providers() -> None:
    assert wanted(mcp_servers=[{"type": "url", "url": "https://mcp.example", "name": "m"}]) == ("mcp_servers",)
    assert wanted(mcp_servers=None) == wanted(mcp_servers={}) == ()


def test_content_that_the_provider_would_fetch_is_found_wherever_it_is() -> None:
    source = {"type": "url", "url": "https://example.com/fix.pdf"}
    for kind in ("image", "document"):
        assert wanted(messages=block(type=kind, source=source)) == ("content from a URL",)
    nested = {"type": "tool_result", "tool_use_id": "t", "content": [{"type": "image", "source": source}]}
    assert wanted(messages=block(**nested)) == ("content from a URL",)
    inner = {"type": "document", "source": {"type": "content", "content": [{"type": "image", "source": source}]}}
    assert wanted(messages=block(**inner)) == ("content from a URL",)
    escaped = msgspec.json.encode({"model": "m", "messages": block(type="image", source=source)})
    assert wanted(escaped.replace(b"url", rb"\u0075rl")) == ("content from a URL",)


def test_urls_in_text_are_not_remote_content() -> None:
    assert (
        wanted(messages=[{"role": "user", "content": '{"source": {"type": "url", "url": "https://a.example"}}'}]) == ()
    )
    use = {"type": "tool_use", "id": "t", "name": "Fetch", "input": {"source": {"type": "url", "url": "https://a"}}}
    assert wanted(messages=block(**use)) == ()
    assert (
        wanted(messages=block(type="image", source={"type": "base64", "media_type": "image/png", "data": "AA"})) == ()
    )
    found = {"type": "search_result", "source": "https://a.example", "title": "url", "content": []}
    assert wanted(messages=block(**found)) == ()


@pytest.mark.parametrize(
    ("method", "path", "remote"),
    [
        ("POST", "/v1/messages/batches", True),
        ("POST", "/V1/Messages", True),
        ("PUT", "/v1/files?x=1", True),
        ("POST", "/v1/messages/count_tokens?beta=true", False),
        ("POST", "/v1/oauth/token", False),
        ("POST", "/api/event_logging/batch", False),
        ("GET", "/v1/models", False),
    ],
)
def test_work_that_the_provider_would_do_by_itself(method: str, path: str, remote: bool) -> None:
    assert is_remote_work(method, path) is remote


async def test_a_request_for_a_tool_of_the_provider_is_refused_counted_and_written_down(tmp_path: Path) -> None:
    tool = {"type": "web_search_20250305", "name": "web_search", "max_uses": 8}
    async with provider() as lab, world(upstream(lab), recording=tmp_path / "c.jsonl") as here:
        for _ in range(2):
            response = await here.agent.post(tools=[tool])
            assert (response.status, response.headers["x-should-retry"]) == (451, "false")
            assert (await response.json())["error"] == {
                "type": "invalid_request_error",
                "message": "web_not_allowed: this run, without --web, does not allow what the provider would execute:"
                " web_search_20250305",
            }
        assert lab.requests == []
        # The session goes on: it is this request that is refused, not the agent.
        assert (await here.agent.ask(tools=[{"name": "Bash", "input_schema": {}}]))[0] == 200
        usage = here.session.usage
        assert (usage.web_refused, usage.refused, usage.requests, here.session.limit) == (2, 0, 1, None)
    assert [refusal.status for refusal in load_recording(tmp_path / "c.jsonl").refusals] == [451, 451]


async def test_allowed_web_tools_pass_unchanged_and_searches_are_counted() -> None:
    tool = {"type": "web_search_20250305", "name": "web_search"}
    found = message(tokens=Tokens(input=10, output=5))
    found["usage"]["server_tool_use"] = {"web_search_requests": 3}
    async with provider() as lab, world(upstream(lab), web=True) as here:
        lab.responses = [respond_with(found)]
        assert (await here.agent.ask(tools=[tool]))[0] == 200
        assert b"web_search_20250305" in lab.bodies[0]
        assert (here.session.usage.web_searches, here.session.usage.web_refused) == (3, 0)


async def test_with_its_own_login_an_agent_cannot_have_the_provider_work_by_itself_either() -> None:
    async def respond(request: web.Request) -> web.StreamResponse:
        return web.json_response({})

    for allowed, status in ((False, 451), (True, 200)):
        async with provider() as lab:
            backend = Upstream(lab.url, auth=ProviderAuth.PASS_THROUGH, retry=QUICK)
            lab.responses = [respond]
            async with world(backend, web=allowed) as here:
                post = here.agent.http.post
                assert (await post(here.agent.base + "/v1/messages/batches", headers=LOGIN)).status == status
                assert (await post(here.agent.base + "/api/event_logging/batch", headers=LOGIN)).status == 200
                assert here.session.usage.web_refused == (not allowed)
