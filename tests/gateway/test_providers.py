import msgspec
import pytest
from aiohttp import web

from dialect_lab import request_body, send
from gateway_lab import QUICK, Provider, provider, world
from proctor.core.causes import Cause
from proctor.gateway import ProviderAuth, Providers, Secret, Upstream

KEYS = {name: f"dummy-key-of-{name}" for name in ("anthropic", "openai", "gemini")}


def providers(lab: Provider, *names: str) -> Providers:
    auths = {
        "anthropic": ProviderAuth.API_KEY,
        "openai": ProviderAuth.BEARER,
        "gemini": ProviderAuth.GOOGLE_API_KEY,
    }
    return Providers(
        {
            name: Upstream(
                f"{lab.url}/{name}", key=Secret(KEYS[name]), auth=auths[name], versioned=name == "openai", retry=QUICK
            )
            for name in names
        }
    )


async def test_each_dialect_goes_to_its_provider_with_its_key_and_no_other() -> None:
    async with provider() as source, world(providers(source, *KEYS)) as lab:
        for name in ("messages", "chat", "responses", "gemini"):
            await send(lab, name, headers={"authorization": "Bearer placeholder", "x-api-key": "placeholder"})
        seen = [
            (request.path, [key for key in KEYS if KEYS[key] in str(request.headers)]) for request in source.requests
        ]
    assert seen == [
        ("/anthropic/v1/messages", ["anthropic"]),
        ("/openai/chat/completions", ["openai"]),
        ("/openai/responses", ["openai"]),
        ("/gemini/v1beta/models/claude-sonnet-4-5:generateContent", ["gemini"]),
    ]


@pytest.mark.parametrize(
    ("name", "base", "path"),
    [
        ("chat", "/api/v1", "/api/v1/chat/completions"),
        ("chat", "/openai/v1/", "/openai/v1/chat/completions"),
        ("responses", "/v1", "/v1/responses"),
        ("gemini", "/v1beta", "/v1beta/models/claude-sonnet-4-5:generateContent"),
        ("gemini", "/proxy", "/proxy/v1beta/models/claude-sonnet-4-5:generateContent"),
        ("messages", "/v1", "/v1/messages"),
        ("messages", "/anthropic", "/anthropic/v1/messages"),
    ],
)
async def test_an_address_may_have_a_path_and_the_version_is_not_added_twice(name: str, base: str, path: str) -> None:
    async with provider() as source:
        backend = Upstream(source.url + base, key=Secret("dummy-key"), auth=ProviderAuth.BEARER, retry=QUICK)
        async with world(backend) as lab:
            await send(lab, name)
            assert [request.path for request in source.requests] == [path]


async def test_a_dialect_without_a_provider_is_refused_and_stops_the_run() -> None:
    async with provider() as source, world(providers(source, "anthropic")) as lab:
        status, body = await send(lab, "chat")
        assert (status, b"set OPENAI_API_KEY" in body) == (400, True)
        assert lab.session.failure is not None
        assert lab.session.failure.cause is Cause.BAD_LOGIN
        assert source.requests == []


async def test_lists_of_models_come_from_the_provider_that_the_client_speaks_to() -> None:
    async with provider() as source, world(providers(source, *KEYS)) as lab:
        for headers in ({"anthropic-version": "1"}, {"x-goog-api-key": "x"}, {"authorization": "Bearer x"}):
            async with lab.agent.http.get(lab.agent.base + "/v1/models", headers=headers) as response:
                await response.read()
        assert [request.path for request in source.requests] == [
            "/anthropic/v1/models",
            "/gemini/v1/models",
            "/openai/models",
        ]


async def test_endpoints_that_cannot_be_metered_are_refused() -> None:
    async with provider() as source, world(providers(source, *KEYS)) as lab:
        for path in ("/v1/embeddings", "/v1/batches", "/v1/responses/resp_1/cancel", "/v1beta/cachedContents"):
            data = msgspec.json.encode(request_body("chat"))
            async with lab.agent.http.post(lab.agent.base + path, data=data) as response:
                assert response.status == 403
        assert source.requests == []


async def test_an_account_that_cannot_pay_is_not_asked_again() -> None:
    async def broke(request: web.Request) -> web.StreamResponse:
        error = {"message": "You exceeded your quota", "type": "insufficient_quota", "code": "insufficient_quota"}
        return web.json_response({"error": error}, status=429)

    async with provider() as source, world(providers(source, "openai")) as lab:
        source.responses = [broke]
        status, _ = await send(lab, "chat")
        assert (status, len(source.requests)) == (400, 1)
        assert lab.session.failure is not None
        assert lab.session.failure.cause is Cause.BAD_LOGIN
