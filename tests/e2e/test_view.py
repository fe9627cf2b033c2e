"""`proctor view`, `bench export` and `bench import` as processes, on a real run, while it is running and after."""

import asyncio
import signal
from pathlib import Path
from typing import Any

import aiohttp
from aiohttp import web

from cli_world import CliWorld, access, toy_run
from toy_provider import make_message, saying, send, toy_provider
from waiting import PATIENCE


async def shown(http: aiohttp.ClientSession, address: str, *wanted: str, seconds: float = PATIENCE) -> str:
    """A page, as soon as it shows all of this."""
    text = ""
    try:
        async with asyncio.timeout(seconds):
            while True:
                async with http.get(address) as response:
                    text = await response.text()
                if all(words in text for words in wanted):
                    return text
                await asyncio.sleep(0.1)
    except TimeoutError:
        raise AssertionError(f"{address} never showed {wanted}: {text[-3000:]}") from None


async def started(job: Any) -> str:
    async with asyncio.timeout(PATIENCE):
        while not job.stdout.is_file() or "\n" not in job.stdout.read_text():
            await asyncio.sleep(0.05)
    address: str = job.stdout.read_text().strip()
    return address


async def test_a_run_is_shown_while_it_is_running(cli_world: CliWorld) -> None:
    released = asyncio.Event()

    async def wait(request: web.Request, body: dict[str, Any]) -> web.StreamResponse:
        await released.wait()
        return await send(request, body, make_message("at last", body["model"]))

    view = cli_world.start("view", "--port", 0)
    async with toy_provider() as provider, aiohttp.ClientSession() as http:
        # The second request of the second task waits until the pages have been read.
        provider.overrides["toy-0002"] = [saying("step 0", "end_turn"), wait]
        running = cli_world.start(*toy_run(provider, "--concurrency", 1), **access(provider))
        home = await started(view)
        await shown(http, home, "toy/run-001", "… running")
        run = f"{home}run/toy/run-001"
        text = await shown(http, run, "… running", "solving", "pending", "✓ resolved")
        assert "1/3" in text.replace('<span class="dim">', "")
        text = await shown(http, f"{run}/task?task=toy-0002", "step 0", "… running")
        assert "step 1" not in text
        released.set()
        assert (await running.wait()).code == 0
        text = await shown(http, run, "100.0%")
        assert "running" not in text
        assert "at last" in await shown(http, f"{run}/task?task=toy-0002", "Trajectory")
    view.signal(signal.SIGINT)
    done = await view.wait()
    assert (done.code, done.stderr) == (0, "")


async def test_one_run_is_shown_alone_and_an_error_is_one_sentence(cli_world: CliWorld) -> None:
    assert (await cli_world.run("view", "toy/run-001")).stderr.startswith("proctor: ")
    done = await cli_world.run("bench", "run", "toy", "--agent", "nop", "--isolation", "off", "--limit", 1)
    assert done.code == 0
    view = cli_world.start("view", "run-001", "--port", 0)
    address = await started(view)
    assert address.endswith("/run/toy/run-001")
    async with aiohttp.ClientSession() as http:
        await shown(http, address, "toy-0001", "unresolved")
    view.signal(signal.SIGTERM)
    assert (await view.wait()).code == 0


async def test_an_exported_run_can_be_imported(cli_world: CliWorld, tmp_path: Path) -> None:
    async with toy_provider() as provider:
        provider.last_words["toy-0002"] = "wrong"
        done = await cli_world.run(*toy_run(provider), **access(provider))
    assert done.code == 0
    listed = await cli_world.run("bench", "export", "--json")
    assert {"atif", "harbor", "x07"} <= set(listed.json["formats"])
    for form, suffix, more in (("harbor", "", ()), ("x07", ".json", ()), ("atif", "", ("--benchmark", "toy"))):
        out = await cli_world.run("bench", "export", "toy/run-001", "--format", form)
        assert (out.code, out.stdout) == (0, f"toy-run-001-{form}{suffix}\n"), out.stderr
        back = await cli_world.run("bench", "import", f"toy-run-001-{form}{suffix}", "--format", form, *more, "--json")
        assert back.code == 0, back.stderr
        assert back.json["tasks"] == 3
    statuses = {
        run: [result.status.value for result in cli_world.store(f"toy/{run}").results()]
        for run in ("run-001", "run-002", "run-003", "run-004")
    }
    assert statuses["run-001"] == statuses["run-002"] == statuses["run-003"] == ["resolved", "unresolved", "resolved"]
    assert statuses["run-004"] == ["skipped"] * 3
    for wrong in (
        ("bench", "export", "toy/run-001", "--format", "x07"),
        ("bench", "export", "toy/run-001", "--format", "nonsense"),
        ("bench", "import", "nowhere", "--format", "x07"),
    ):
        done = await cli_world.run(*wrong)
        assert (done.code, done.stderr.count("\n")) == (2, 1), done
