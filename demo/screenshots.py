"""Makes the screenshots of the viewer in docs/, from runs of the real Claude Code with a scripted model.

make screenshots
"""

import asyncio
import os
import shutil
import sys
from pathlib import Path
from typing import Any

import yaml
from aiohttp import web
from make_script import able, poor

from chromium import Page, chromium
from proctor.benchmarks import benchmark
from proctor.core.task import Task
from proctor.report.run_index import RunIndex
from proctor.report.viewer import serve
from proctor.report.viewer.bundle import write_bundle
from proctor.results import RunStore
from viewing import viewer

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
# A plain path: it can be read in the pictures.
WORK = Path("/tmp/proctor-runs")  # noqa: S108
SUITE = "core"
TASKS = 8
WAIT_SECONDS = 6


def write_script(name: str, tasks: list[Task], patches: dict[str, str], *, fails: int, waits: int) -> Path:
    """A script that solves every task except each `fails`-th, and delays the last `waits` tasks."""
    script: dict[str, Any] = {}
    for number, task in enumerate(tasks, start=1):
        steps = poor() if fails and number % fails == 0 else able(task, patches[task.id])
        if number > len(tasks) - waits:
            steps[1]["delay"] = WAIT_SECONDS
        script[task.id] = steps
    file = WORK / f"{name}.yaml"
    file.write_text(yaml.safe_dump({"tasks": script}, sort_keys=False))
    return file


async def begin(script: Path, tasks: list[Task], name: str) -> asyncio.subprocess.Process:
    chosen = [word for task in tasks for word in ("--task", task.id)]
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "proctor", "bench", "run", SUITE, "--model", f"script:{script}", *chosen),
        *("--concurrency", "2", "--quiet", "--name", name),
        cwd=WORK,
        env={**os.environ, "PROCTOR_RESULTS": str(WORK / "results")},
    )


async def finish(run: asyncio.subprocess.Process) -> None:
    if await run.wait():
        raise SystemExit("a run failed")


async def take(page: Page, address: str, name: str, *, wait: str = "", height: int = 700, **looks: Any) -> None:
    await page.looks(**{"width": 1080, "height": height, **looks})
    await page.go(address)
    if wait:
        await page.until(wait, 60)
    await page.picture(DOCS / f"viewer-{name}.webp")


async def main() -> None:
    shutil.rmtree(WORK, ignore_errors=True)
    WORK.mkdir()
    source = benchmark(SUITE)
    oracles = {
        task.id: oracle.content.decode() for task in source.tasks() if (oracle := source.oracle(task)) is not None
    }
    # Not every patch with backslashes in it survives the shell tool that the script hands it to.
    patches = {task: patch for task, patch in oracles.items() if "\\" not in patch and task.startswith("py_")}
    tasks = [task for task in source.tasks() if task.id in patches][:TASKS]
    await finish(await begin(write_script("first", tasks, patches, fails=3, waits=0), tasks, "first"))
    await finish(await begin(write_script("second", tasks, patches, fails=7, waits=0), tasks, "second"))
    running = await begin(write_script("slow", tasks, patches, fails=4, waits=3), tasks, "third")
    results = WORK / "results"
    async with viewer(results) as address, chromium() as browser:
        page = await browser.page()
        run = f"{address}/run/{SUITE}"
        while not (results / SUITE / "run-003" / "config.json").exists():
            await asyncio.sleep(0.2)
        await take(
            page,
            f"{run}/run-003",
            "running",
            wait="document.querySelectorAll('td .pill.resolved').length > 2 && document.querySelector('.solving')",
            height=760,
        )
        await finish(running)
        await take(page, f"{address}/", "runs", height=420)
        await take(page, f"{address}/compare?run={SUITE}/run-001&run={SUITE}/run-002", "compare", height=760)
        three = "&".join(f"run={SUITE}/run-00{number}" for number in (1, 2, 3))
        await take(page, f"{address}/compare?{three}", "grid", height=900)
        await page.go(f"{run}/run-001")
        await page.value("document.querySelector('#failures').open = true")
        await page.value("document.querySelector('#failures').scrollIntoView()")
        await page.picture(DOCS / "viewer-failures.webp")
        solved = next(one for one in RunStore(results / SUITE / "run-002").results() if one.status == "resolved")
        task = f"{run}/run-002/task?task={solved.task_id}"
        await take(page, f"{task}#patch", "patch", height=880)
        await take(page, f"{task}#trajectory", "trajectory-dark", height=880, dark=True)
        await take(page, f"{task}&find=apply#trajectory", "search", height=600)
        await take(page, task, "phone", width=390, height=760)
    await take_shared(results)
    shutil.rmtree(WORK)


async def take_shared(results: Path) -> None:
    """What others see: the page that asks for the token, and a bundle behind a web server."""
    stop, ready = asyncio.Event(), asyncio.get_running_loop().create_future()
    serving = asyncio.create_task(
        serve(
            RunIndex(results),
            port=0,
            strict_port=False,
            on_ready=ready.set_result,
            stop=stop,
            host="127.0.0.2",
            token="dummy-token",  # noqa: S106 - nobody's
        )
    )
    site = WORK / "site"
    await asyncio.to_thread(write_bundle, RunIndex(results), site)
    runner = web.AppRunner(web.Application())
    runner.app.router.add_static("/bench/", site)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    async with chromium() as browser:
        page = await browser.page()
        await take(page, await ready, "access", height=260)
        await take(page, f"http://127.0.0.1:{runner.addresses[0][1]}/bench/index.html", "bundle", height=420)
    stop.set()
    await serving
    await runner.cleanup()


if __name__ == "__main__":
    asyncio.run(main())
