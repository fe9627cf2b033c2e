"""No key, login or path token is in anything that is written, said or logged."""

import logging
from pathlib import Path

import pytest
from aiohttp import ClientError, web

from gateway_lab import KEY, QUICK, fail_with, message, provider, respond_with, upstream, world
from proctor.gateway import ProviderAuth, Upstream
from waiting import rounds

LOGIN = "dummy-oauth-login-recognisable-987654"


def everything(tmp_path: Path, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]) -> str:
    files = [path.read_text(errors="replace") for path in tmp_path.rglob("*") if path.is_file()]
    assert files
    captured = capfd.readouterr()
    return "\n".join([*files, caplog.text, captured.out, captured.err])


async def test_nothing_that_a_stormy_session_writes_holds_a_secret(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.DEBUG)
    seen: list[str] = []

    async def echo(request: web.Request) -> web.StreamResponse:
        return await respond_with(message(f"your headers: {dict(request.headers)}"), piece=7)(request)

    async def slam(request: web.Request) -> web.StreamResponse:
        assert request.transport is not None
        request.transport.abort()
        return web.Response()

    async with provider() as lab, world(upstream(lab), recording=tmp_path / "c.jsonl") as here:
        token = here.session.token
        env = f"ANTHROPIC_BASE_URL={here.agent.base} ANTHROPIC_API_KEY={KEY}"
        for response in (
            [echo],
            [fail_with(401, text=f"bad {KEY}")],
            [fail_with(529, text=f"bad {KEY}")],
            [fail_with(400, text=f"bad {KEY}")],
            [slam],
        ):
            for stream in (True, False):
                lab.responses = [*response]
                try:
                    status, body = await here.agent.ask(env, stream=stream, system=env, headers={"X-Weird": token})
                except ClientError as error:
                    seen.append(repr(error))
                else:
                    seen += [body.decode()] if status >= 400 else []
        await rounds()
        seen += [repr(event) for event in here.events]
        seen += [repr(here.session.usage), repr(here.session), repr(here.gateway)]
    written = everything(tmp_path, caplog, capfd) + "\n".join(seen)
    assert "Traceback" not in written
    assert "your headers" in written
    assert KEY not in written
    # The agent knows its own base URL; what is kept of the session must not.
    assert token not in everything(tmp_path, caplog, capfd)


async def test_the_agents_own_login_is_written_nowhere(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.DEBUG)
    async with (
        provider() as lab,
        world(Upstream(lab.url, auth=ProviderAuth.PASS_THROUGH, retry=QUICK), recording=tmp_path / "c.jsonl") as here,
    ):
        lab.responses = [respond_with(message(f"you are {LOGIN}"), piece=5)]
        headers = {"Authorization": f"Bearer {LOGIN}"}
        assert (await here.agent.ask(f"I am {LOGIN}", stream=True, headers=headers))[0] == 200
        await rounds()
        said = repr(here.events)
    assert LOGIN not in everything(tmp_path, caplog, capfd) + said


async def test_a_failure_inside_the_gateway_shows_no_traceback_and_no_secret(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "some-file").touch()
    async with provider() as lab, world(upstream(lab)) as here:

        async def broken(*_: object) -> None:
            raise ValueError("inside")

        here.session.responder.respond = broken  # type: ignore[method-assign,assignment]
        status, body = await here.agent.ask()
        assert (status, b"the gateway failed" in body) == (500, True)
        assert here.session.failure is not None
        assert "ValueError: inside" in here.session.failure.message
    assert "Traceback" not in everything(tmp_path, caplog, capfd)


async def test_logins_without_end_are_not_all_looked_for() -> None:
    async with provider() as lab, world(Upstream(lab.url, auth=ProviderAuth.PASS_THROUGH, retry=QUICK)) as here:
        for number in range(200):
            await here.agent.http.get(here.agent.base, headers={"x-api-key": f"dummy-own-login-{number:04}"})
        assert here.session._redactor.redact_text("dummy-own-login-0000") == "[redacted]"
        assert len(here.session._redactor._literals) < 150
