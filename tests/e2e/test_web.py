"""The provider's own tools, and a stream that is cut off, on the command line: the result and its reports say so."""

import asyncio
import json
from typing import Any

from aiohttp import web

from cli_world import CliWorld, access
from proctor.core.result import WebUse
from toy_provider import ANSWER_USD, MODEL, make_message, send, toy_provider

# Asks for a web search, and whatever becomes of it goes on; then reads the beginning of an answer, and leaves.
AGENT = """
import http.client, json, os
from urllib.parse import urlsplit

url = urlsplit(os.environ["ANTHROPIC_BASE_URL"])

def ask(**more):
    connection = http.client.HTTPConnection(url.hostname, url.port, timeout=60)
    body = {"model": os.environ["PROCTOR_MODEL"], "max_tokens": 9, "messages": [{"role": "user", "content": "hi"}]}
    headers = {"content-type": "application/json", "x-api-key": "x"}
    connection.request("POST", url.path + "/v1/messages", json.dumps(body | more).encode(), headers)
    return connection, connection.getresponse()

print(ask(tools=[{"type": "web_search_20250305", "name": "web_search"}])[1].status)
connection, response = ask(stream=True)
response.read(10)
connection.close()
with open("answer.txt", "w") as file:
    file.write("right\\n")
"""


async def half(request: web.Request, body: dict[str, Any]) -> web.StreamResponse:
    """A stream that begins, and does not go on."""
    response = await send(request, body, make_message("some words", body["model"]), events=3)
    await asyncio.sleep(60)
    return response


async def test_refused_and_estimated_requests_are_in_the_result_and_in_reports(cli_world: CliWorld) -> None:
    program = cli_world.folder / "agent.py"
    program.write_text(AGENT)
    agent = ("--agent", "command", "--agent-command", f"python3 {program}")
    run = ("bench", "run", "toy", *agent, "--model", MODEL, "--isolation", "off", "--quiet")
    async with toy_provider() as provider:
        env = {**access(provider), "TOY_TASKS": 1}
        provider.overrides["?"] = [half]
        refused = await cli_world.run(*run, **env)
        assert provider.asked.total() == 1
        assert refused.code == 0, refused.stderr
        assert "of it estimated" in refused.stdout
        (result,) = cli_world.store().results()
        assert result.web == WebUse(allowed=False, refused=1)
        (usage,) = result.usage
        assert (usage.estimated_requests, usage.estimated_usd) == (1, usage.cost_usd)
        assert 1000 * 3 / 1e6 < usage.estimated_usd < 2 * ANSWER_USD
        shown = await cli_world.run("bench", "show", "run-001", "toy-0001")
        assert "the provider's tools were not allowed: 1 request refused" in shown.stdout
        assert "of it is an upper estimate: 1 request without a whole response" in shown.stdout
        report = await cli_world.run("bench", "report", "toy")
        assert "run-001: 1 request for the provider's own tools, such as web search, was refused." in report.stdout
        assert "is an upper estimate, of 1 request whose response broke off or never came." in report.stdout
        summary = json.loads((cli_world.store().folder / "summary.json").read_text())
        assert summary["estimated_usd"] == summary["cost_usd"] == usage.cost_usd

        provider.overrides["?"] = []
        allowed = await cli_world.run(*run, "--web", **env)
    assert allowed.code == 0, allowed.stderr
    (result,) = cli_world.store("toy/run-002").results()
    assert result.web == WebUse(allowed=True)
    assert cli_world.store("toy/run-002").config().web
    shown = await cli_world.run("bench", "show", "run-002")
    assert "the provider's tools allowed" in shown.stdout
    assert "run-002: the provider's own tools, such as web search, were allowed." in shown.stdout
    compared = await cli_world.run("bench", "compare", "run-001", "run-002")
    assert "web: False and True" in compared.stderr
