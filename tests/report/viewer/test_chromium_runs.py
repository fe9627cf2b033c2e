"""Finding, comparing and sharing runs in a real browser: sorting, sweeps, long trajectories, tokens, a static site."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiohttp import web

from chromium import Chromium, Page
from proctor.core.causes import Cause
from proctor.core.sweep import Sweep, SweepRun
from proctor.core.trajectory import Lane, Step, ToolCall, Trajectory
from proctor.report.run_index import RunIndex
from proctor.report.trajectories import ATIF_FILE, to_atif
from proctor.report.viewer import serve
from proctor.report.viewer.bundle import write_bundle
from proctor.results import RunStore, new_run, new_sweep
from stored_runs import config, finish, small_run, store_trial
from viewing import viewer

pytestmark = pytest.mark.asyncio(loop_scope="module")
STEPS = 5000


@asynccontextmanager
async def opened(browser: Chromium, address: str, *, width: int = 1280) -> AsyncIterator[Page]:
    page = await browser.page()
    await page.looks(width=width)
    await page.go(address)
    yield page
    await page.close()


def make_run(root: Path, *causes: Cause, **changes: object) -> RunStore:
    store = new_run("toy", root=root)
    for number, cause in enumerate(causes):
        store_trial(store, f"task-{number}", cause, logs=number == 0)
    finish(store, **changes)  # type: ignore[arg-type]
    return store


async def names(page: Page) -> list[str]:
    found: list[str] = await page.value(
        "[...document.querySelectorAll('tr[data-row] td.name a')].map(a => a.textContent)"
    )
    return found


async def test_runs_are_sorted_filtered_and_found_by_their_names(browser: Chromium, tmp_path: Path) -> None:
    make_run(tmp_path, Cause.SOLVED, Cause.SOLVED, name="best", created_at="2026-01-01T00:00:00+00:00")
    make_run(tmp_path, Cause.TESTS_FAILED, Cause.SOLVED, agent="codex", run_tags={"purpose": "release"})
    make_run(tmp_path, Cause.TESTS_FAILED, archived=True)
    async with viewer(tmp_path) as address, opened(browser, f"{address}/") as page:
        assert await names(page) == ["toy/run-002", "toy/run-001"]
        await page.value("[...document.querySelectorAll('th a')].find(a => a.textContent.includes('Resolved')).click()")
        await page.arrived("location.search.includes('sort=rate')")
        assert await names(page) == ["toy/run-001", "toy/run-002"]
        await page.press("/")
        await page.call("Input.insertText", text="purpose=release")
        await page.until("document.querySelectorAll('tr[data-row]').length == 1")
        assert await names(page) == ["toy/run-002"]
        # The address says it all: whoever gets it sees the same.
        shared = await page.value("location.href")
        await page.go(shared)
        assert await names(page) == ["toy/run-002"]
        await page.go(f"{address}/?archived=1&agent=claude_code&sort=run")
        assert await names(page) == ["toy/run-001", "toy/run-003"]
        assert "best" in await page.value("document.querySelector('td.name').textContent")


async def test_a_sweep_is_compared_in_a_grid_with_the_changes_that_the_command_line_has(
    browser: Chromium, tmp_path: Path
) -> None:
    labels = ("small", "large", "huge")
    sweep = new_sweep(
        Sweep(
            sweep_id="",
            name="sizes",
            benchmark="toy",
            file="",
            runs=tuple(SweepRun(label=label, config=config(run_id="")) for label in labels),
            reference="small",
            rule=None,
            created_at="2026-01-01T00:00:00+00:00",
        ),
        root=tmp_path,
    )
    for (label, store), good in zip(sweep.runs(), (3, 6, 8), strict=True):
        for number in range(8):
            cause = Cause.SOLVED if number < good else Cause.TESTS_FAILED
            store_trial(store, f"task-{number}", cause, logs=False, agent_seconds=60.0 * good)
        finish(store, label=label, sweep=sweep.name)
    async with viewer(tmp_path) as address, opened(browser, f"{address}/") as page:
        await page.value("document.querySelector('[aria-label=Sweeps] a').click()")
        await page.arrived("document.querySelector('table.compare')")
        heads = await page.value("[...document.querySelectorAll('table.compare th')].map(th => th.textContent)")
        assert heads == ["Task", *(f"toy/run-00{number} ({label})" for number, label in enumerate(labels, start=1))]
        cells = await page.value("[...document.querySelectorAll('table.runs tbody tr')].map(tr => tr.textContent)")
        assert "reference" in cells[0]
        assert "+37.5 points" in cells[1]
        assert "+100.0%" in cells[1]  # the time
        assert await page.value("document.querySelectorAll('table.compare tbody tr').length") == 8
        await page.value("[...document.querySelectorAll('a.chip.gained')][0].click()")
        await page.arrived("location.search.includes('flip=gained')")
        assert await page.value("document.querySelectorAll('table.compare tbody tr').length") == 5
        await page.press("j", "j")
        assert "task-4" in await page.value("document.querySelector('tr.marked').textContent")


async def test_any_number_of_runs_is_compared(browser: Chromium, tmp_path: Path) -> None:
    for number in range(60):
        make_run(tmp_path, *([Cause.SOLVED, Cause.TESTS_FAILED][: 1 + number % 2]), name=f"try-{number}")
    async with viewer(tmp_path) as address, opened(browser, f"{address}/") as page:
        await page.value("document.querySelectorAll('tr[data-row] input').forEach(box => box.checked = true)")
        await page.value("document.querySelector('form[action=\"/compare\"]').submit()")
        await page.arrived("document.querySelector('table.compare')")
        assert await page.value("document.querySelectorAll('table.compare th').length") == 61
        assert await page.value("document.querySelectorAll('table.changes tbody tr').length") == 60
        # One more is added to all of them; on a phone, nothing is wider than the screen.
        assert await page.value("document.querySelectorAll('form input[type=hidden][name=run]').length") >= 60
        await page.looks(width=390)
        assert await page.value("document.documentElement.scrollWidth") == 390
        shown = await page.value("document.querySelector('table.changes tbody tr:nth-child(2)').innerText")
        assert "cost" in shown
        assert "time" in shown


def write_steps(store: RunStore, task: str, count: int) -> None:
    """Give the first attempt at a task a trajectory of so many steps."""
    steps = [
        Step(
            source="agent",
            at=f"2026-01-02T03:{number // 60 % 60:02}:{number % 60:02}+00:00",
            text=f"Step {number}: I look at the next file." + (" The needle is here." if number == 4321 else ""),
            calls=(
                ToolCall(id=str(number), name="Bash", arguments={"command": f"cat {number}"}, output="text\n" * 20),
            ),
        )
        for number in range(1, count + 1)
    ]
    made = Trajectory(task_id=task, agent="x", version="1", model="m", lanes=(Lane(name="main"),), steps=tuple(steps))
    (store.logs(task, 1, 1) / ATIF_FILE).write_bytes(to_atif(made))


async def test_a_trajectory_of_5000_steps_opens_at_once_loads_as_one_scrolls_and_is_searched(
    browser: Chromium, tmp_path: Path
) -> None:
    store = make_run(tmp_path, Cause.SOLVED)
    write_steps(store, "task-0", STEPS)
    async with viewer(tmp_path) as address, opened(browser, "about:blank") as page:
        task = f"{address}/run/toy/run-001/task?task=task-0"
        began, used = time.monotonic(), time.process_time()
        await page.go(task)
        await page.until("document.querySelectorAll('.step').length >= 100")
        opened_in, used = time.monotonic() - began, time.process_time() - used
        print(f"5,000 steps opened in {opened_in:.2f} s, of which the server used {used:.2f} s")
        assert used < 3  # of a busy machine's CPU; docs/viewer.md has what an idle one takes
        shown = await page.value("document.querySelectorAll('.step').length")
        assert shown < 1000
        await page.value("document.querySelector('.steps .more').scrollIntoView()")
        await page.until(f"document.querySelectorAll('.step').length > {shown}")
        await page.press("/")
        await page.call("Input.insertText", text="needle")
        await page.until("document.querySelectorAll('.step').length == 1")
        assert await page.value("document.querySelector('.step').id") == "s4321"
        assert await page.value("document.activeElement.name") == "find"
        # A link to a step opens where it is.
        link = await page.value("document.querySelector('.step a.n').href")
        await page.go(link)
        await page.until("document.getElementById('s4321')")
        assert await page.value("Math.abs(document.getElementById('s4321').getBoundingClientRect().top) < 800")


async def test_a_long_patch_loads_as_one_scrolls(browser: Chromium, tmp_path: Path) -> None:
    store = new_run("toy", root=tmp_path)
    files = [
        f"diff --git a/f{number}.py b/f{number}.py\n--- a/f{number}.py\n+++ b/f{number}.py\n@@ -0,0 +1,300 @@\n"
        + "".join(f"+x{line} = {number}\n" for line in range(300))
        for number in range(12)
    ]
    store_trial(store, "big", Cause.SOLVED, diff="".join(files))
    finish(store)
    async with viewer(tmp_path) as address, opened(browser, f"{address}/run/toy/run-001/task?task=big") as page:
        assert await page.value("document.querySelectorAll('details.file').length") == 12
        waiting = await page.value("document.querySelectorAll('#patch [data-more]').length")
        assert waiting > 5
        await page.value("[...document.querySelectorAll('details.file')].at(-1).scrollIntoView()")
        await page.until("[...document.querySelectorAll('details.file')].at(-1).textContent.includes('x299 = 11')")


async def test_failures_are_grouped_by_cause_with_examples(browser: Chromium, tmp_path: Path) -> None:
    make_run(tmp_path, Cause.TESTS_FAILED, Cause.TESTS_FAILED, Cause.AGENT_TIMEOUT, Cause.SOLVED)
    async with viewer(tmp_path) as address, opened(browser, f"{address}/run/toy/run-001", width=390) as page:
        summary = await page.value("document.querySelector('#failures summary').textContent")
        assert summary == "Failures by cause: 2 tests failed, 1 agent timeout"
        await page.value("document.querySelector('#failures').open = true")
        examples = await page.value("[...document.querySelectorAll('#failures li a')].map(a => a.textContent)")
        assert examples == ["task-0", "task-1", "task-2"]
        await page.value("document.querySelector('#failures h3 a').click()")
        await page.arrived("location.search.includes('cause=tests_failed')")
        assert await page.value("document.querySelectorAll('tr[data-row]').length") == 2
        assert await page.value("document.documentElement.scrollWidth <= innerWidth")  # on a phone


async def test_from_elsewhere_the_token_is_needed_and_then_kept(browser: Chromium, tmp_path: Path) -> None:
    small_run(tmp_path)
    stopped = asyncio.Event()
    ready: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    serving = asyncio.create_task(
        serve(
            RunIndex(tmp_path),
            port=0,
            strict_port=False,
            on_ready=ready.set_result,
            stop=stopped,
            host="0.0.0.0",
            token="dummy-token",
        )
    )
    address = (await ready).replace("0.0.0.0", "127.0.0.2")
    async with opened(browser, address) as page:
        assert "needs its access token" in await page.value("document.body.textContent")
        await page.go(f"{address}?token=wrong")
        assert "needs its access token" in await page.value("document.body.textContent")
        # A shared link is opened, once the token is given; the style sheet is there before.
        await page.go(f"{address}run/toy/run-001?status=unresolved")
        assert await page.value("getComputedStyle(document.querySelector('.top')).position") == "sticky"
        await page.value("document.querySelector('[name=token]').value = 'dummy-token'; document.forms[0].submit()")
        await page.arrived("document.querySelector('td.task a')")
        assert (await page.value("location.href")).endswith("/run/toy/run-001?status=unresolved")
        # What another server on this machine has set is in no way, whatever its port.
        await page.value("document.cookie = 'proctor_token=other'")
        await page.go(f"{address}?token=dummy-token")
        await page.until("document.querySelector('tr[data-row]')")
        assert "token" not in await page.value("location.href")
        await page.go(f"{address}run/toy/run-001")
        await page.until("document.querySelector('td.task a')")
    stopped.set()
    await serving


@asynccontextmanager
async def tunnel(address: str) -> AsyncIterator[str]:
    """The same server behind another port, as an ssh tunnel makes it."""
    port = int(address.rpartition(":")[2])

    async def carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection("127.0.0.1", port)

        async def copy(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
            while data := await source.read(65536):
                target.write(data)
                await target.drain()
            target.close()

        await asyncio.gather(copy(reader, back), copy(there, writer), return_exceptions=True)

    server = await asyncio.start_server(carry, "127.0.0.1", 0)
    try:
        yield f"http://localhost:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()


async def test_a_tunnel_from_another_port_shows_the_pages(browser: Chromium, tmp_path: Path) -> None:
    small_run(tmp_path)
    async with viewer(tmp_path) as address, tunnel(address) as there, opened(browser, f"{there}/") as page:
        await page.until("document.querySelector('tr[data-row]')")
        await page.press("j", "Enter")
        await page.arrived("location.pathname == '/run/toy/run-001'")


async def test_a_bundle_is_served_by_any_web_server_and_holds_no_secret(
    browser: Chromium, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "dummy-key-0123456789")
    store = new_run("toy", root=tmp_path / "results")
    lines = "+dummy-key-0123456789\n+<script>alert(1)</script>\n"
    store_trial(store, "org/a", Cause.SOLVED, diff=f"diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -0,0 +1,2 @@\n{lines}")
    store_trial(store, "b", Cause.TESTS_FAILED, diff="a key of another machine: sk-ant-dummy-9-elsewhere\n")
    finish(store, name="nightly", note="<img src=x onerror=alert(1)>")
    write_steps(store, "b", 150)
    make_run(tmp_path / "results", Cause.SOLVED, Cause.SOLVED, Cause.SOLVED, name="better")
    await asyncio.to_thread(write_bundle, RunIndex(tmp_path / "results"), tmp_path / "site")
    files = [file for file in (tmp_path / "site").rglob("*") if file.is_file()]
    assert all(b"dummy-key" not in file.read_bytes() for file in files)
    assert all(b"9-elsewhere" not in file.read_bytes() for file in files)
    assert all(str(tmp_path).encode() not in file.read_bytes() for file in files)
    app = web.Application()
    app.router.add_static("/below/", tmp_path / "site")
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    address = f"http://127.0.0.1:{runner.addresses[0][1]}/below/index.html"
    async with opened(browser, address) as page:
        # What a server would sort and compare is there without one.
        assert await names(page) == ["toy/run-001", "toy/run-002"]
        await page.value("[...document.querySelectorAll('th')].find(th => th.textContent == 'Resolved').click()")
        assert await names(page) == ["toy/run-002", "toy/run-001"]
        await page.value("document.querySelector('[aria-label=Comparisons] a').click()")
        await page.arrived("document.querySelector('table.compare')")
        heads = await page.value("[...document.querySelectorAll('table.compare th')].map(th => th.textContent)")
        assert heads == ["Task", "toy/run-001 (nightly)", "toy/run-002 (better)"]
        await page.go(address)
        await page.value("document.querySelector('td.name a').click()")
        await page.arrived("document.querySelector('td.task a')")
        # The link of a step leads to the page that has it.
        await page.value("[...document.querySelectorAll('td.task a')].find(a => a.textContent == 'b').click()")
        await page.arrived("document.querySelector('#s100')")
        await page.value("document.querySelector('li.more a').click()")
        await page.arrived("document.querySelector('#s150')")
        await page.value("document.querySelector('#s150 a.n').click()")
        assert (await page.value("location.hash")) == "#s150"
        assert await page.value("!!document.querySelector('#s150')")
        await page.press("u")
        await page.arrived("document.querySelector('td.task a')")
        await page.press("/")
        await page.call("Input.insertText", text="org/")
        await page.until("[...document.querySelectorAll('tr[data-row]')].filter(row => !row.hidden).length == 1")
        await page.value("document.querySelector('tr[data-row]:not([hidden]) td.task a').click()")
        await page.arrived("document.querySelector('#patch')")
        assert "[masked]" in await page.value("document.querySelector('#patch').textContent")
        await page.press("u")
        await page.arrived("document.querySelector('td.task a')")
        assert page.troubles == page.dialogs == []
        # A page that is opened as a file is the same.
        await page.go((tmp_path / "site/index.html").as_uri())
        assert await names(page) == ["toy/run-001", "toy/run-002"]
        assert await page.value("getComputedStyle(document.querySelector('.top')).position") == "sticky"
    await runner.cleanup()
