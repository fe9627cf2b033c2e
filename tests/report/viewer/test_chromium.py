"""The viewer in a real browser: what is seen, what the keys do, and that nothing hostile comes to life in it."""

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path

import msgspec
import pytest
from aiohttp import web

from chromium import Chromium, Page
from proctor.core.causes import Cause
from proctor.core.files import file_lock
from proctor.core.result import ModelUsage, Tokens
from proctor.core.run import JournalEntry
from proctor.core.verdict import Finding
from proctor.results import RunStore, new_run
from recorded import record_pod, record_single
from stored_runs import finish, small_run, store_trial
from viewing import viewer

pytestmark = pytest.mark.asyncio(loop_scope="module")


@asynccontextmanager
async def opened(browser: Chromium, root: Path) -> AsyncIterator[tuple[Page, str]]:
    async with viewer(root) as address:
        page = await browser.page()
        await page.looks()
        yield page, address
        await page.close()


@asynccontextmanager
async def bait() -> AsyncIterator[tuple[str, list[str]]]:
    """A server that hostile text points to, and what was asked of it."""
    asked: list[str] = []

    async def handle(request: web.BaseRequest) -> web.StreamResponse:
        asked.append(request.path)
        return web.Response(text="")

    runner = web.ServerRunner(web.Server(handle))
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}", asked
    finally:
        await runner.cleanup()


def hostile(url: str) -> str:
    """Known ways to run a script, load a resource or navigate the page, each once."""
    return "\n".join(
        [
            f"<script>window.pwned=1;fetch('{url}/fetch')</script>",
            f"<script src='{url}/script'></script>",
            f"<img src='{url}/img' onerror='window.pwned=1'>",
            f"<svg onload='window.pwned=1'><image href='{url}/svg'/></svg>",
            f"<iframe src='{url}/iframe'></iframe><object data='{url}/object'></object><embed src='{url}/embed'>",
            f"<link rel=stylesheet href='{url}/link'>",
            f"<style>@import '{url}/style'; body{{background:url({url}/bg)}}</style>",
            f"<meta http-equiv=refresh content='0;url={url}/meta'><base href='{url}/'>",
            f"<form action='{url}/form'><button>go</button></form>",
            "<a href='javascript:window.pwned=1' autofocus onfocus='window.pwned=1'>x</a>",
            f"</pre></td></table></details></main></body></html><video src='{url}/video' autoplay></video>",
            "'\"><img src=x onerror=alert(1)>{{constructor.constructor('window.pwned=1')()}}${window.pwned=1}",
            "<template><script>window.pwned=1</script></template><![CDATA[<script>window.pwned=1</script>]]><!--",
            "javascript:window.pwned=1 data:text/html,<script>parent.pwned=1</script>",
            f"\x1b]8;;{url}/osc\x07link\x1b]8;;\x07",
            "\u202etxet desrever\u2069 \x00 \ufeff",
        ]
    )


async def hostile_run(root: Path, text: str) -> RunStore:
    store = new_run("toy", root=root)
    task = f"evil {text[:300]}"
    lines = text.replace("\r", "").split("\n")
    patch = "diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1,9 +1,9 @@ " + lines[2] + "\n"
    patch += "".join(f"{sign}{line}\n" for line in lines for sign in "+- ")
    store_trial(
        store,
        task,
        Cause.TESTS_FAILED,
        diff=patch,
        findings=(Finding(code=lines[2], path=lines[0], detail=text),),
        categories={lines[2]: lines[0]},
    )
    logs = store.logs(task, 1, 1)
    (logs / "<img src=x onerror=window.pwned=1>.html").write_text(text)
    await record_single(logs / "cassette.jsonl", task, say=text, output=text, ask=text)
    finish(store, agent=lines[2], model=lines[0])
    return store


async def test_a_hostile_agent_cannot_run_or_send_anything(browser: Chromium, tmp_path: Path) -> None:
    async with bait() as (url, asked):
        await hostile_run(tmp_path, hostile(url))
        async with opened(browser, tmp_path) as (page, address):
            await page.go(f"{address}/")
            await page.until("document.querySelector('table.runs td a')")
            await page.value("document.querySelector('table.runs td a[href]').click()")
            await page.arrived("document.querySelector('td.task a')")
            await page.value("document.querySelector('td.task a').click()")
            await page.arrived("document.querySelector('#trajectory .step')")
            await page.value("document.querySelectorAll('details').forEach(item => item.open = true)")
            assert await page.value("location.pathname") == "/run/toy/run-001/task"
            # It was all there to be read, and none of it came to life.
            seen = await page.value("document.querySelector('#main').textContent")
            for words in (
                "<script>window.pwned=1;fetch(",
                "onerror=alert(1)",
                "javascript:window.pwned=1",
                "⟦202E⟧txet",
            ):
                assert seen.count(words) >= 3, words
            shown = await page.value("document.querySelector('#instruction pre').textContent")
            assert shown.split("\n")[0] == hostile(url).split("\n")[0]
            elements = (
                "script:not([src='/static/view.js']), iframe, object, embed, video, style, base, meta[http-equiv]"
            )
            assert await page.value(f"document.querySelectorAll(`{elements}`).length") == 0
            assert await page.value("document.querySelectorAll('img').length") == 1
            assert await page.value("[...document.links].every(link => link.origin === location.origin)") is True
            await page.value("document.querySelector('#files a[href*=\"onerror\"]').click()")
            await page.arrived("location.pathname.endsWith('/file') && document.body")
            assert await page.value("document.contentType") == "text/plain"
            await page.go(f"{address}/compare?run=toy/run-001&run=toy/run-001")
            await asyncio.sleep(0.3)
            assert await page.value("typeof window.pwned") == "undefined"
        assert asked == []
        assert page.dialogs == []
        assert [one for one in page.asked if not one.startswith(f"{address}/")] == []
        assert page.troubles == []


async def test_keys_search_move_and_open(browser: Chromium, tmp_path: Path) -> None:
    store = small_run(tmp_path)
    await record_pod(store.logs("two", 1, 1) / "cassette.jsonl", "two")
    async with opened(browser, tmp_path) as (page, address):
        await page.go(f"{address}/run/toy/run-001")
        assert await page.value("document.querySelectorAll('[data-row]').length") == 6
        await page.press("/", *"two")
        await page.until("document.querySelectorAll('[data-row]').length === 2")
        assert await page.value("location.search") == "?q=two&sort=task"
        await page.press("Escape", "j", "j", "k")
        assert await page.value("document.querySelector('.marked a').textContent") == "two"
        await page.press("Enter")
        await page.arrived("document.querySelector('h1.task')?.textContent === 'two'")
        assert await page.value("getComputedStyle(document.querySelector('.steps')).display") == "grid"
        columns = await page.value(
            "new Set([...document.querySelectorAll('.step')].map(one => one.getBoundingClientRect().left)).size"
        )
        assert columns == 3
        await page.press("[")
        await page.arrived("document.querySelector('h1.task')?.textContent === 'three #2'")
        await page.press("u")
        await page.arrived("location.pathname === '/run/toy/run-001'")
        await page.press("h")
        await page.arrived("location.pathname === '/'")
        assert page.troubles == []


async def test_a_page_fits_a_phone_and_a_dark_screen(browser: Chromium, tmp_path: Path) -> None:
    store = small_run(tmp_path)
    small_run(tmp_path)
    await record_pod(store.logs("two", 1, 1) / "cassette.jsonl", "two")
    background = "getComputedStyle(document.documentElement).backgroundColor"
    async with opened(browser, tmp_path) as (page, address):
        colours = []
        for dark in (False, True):
            await page.looks(width=390, height=800, dark=dark)
            for path in (
                "/",
                "/run/toy/run-001",
                "/run/toy/run-001/task?task=two",
                "/compare?run=toy/run-001&run=toy/run-002",
            ):
                await page.go(address + path)
                assert await page.value("document.documentElement.scrollWidth") <= 390, path
                # The rate is visible without scrolling the table.
                for ends in await page.value(
                    "[...document.querySelectorAll('.runs td b')].map(rate => rate.getBoundingClientRect().right)"
                ):
                    assert ends <= 390, path
            colours.append(await page.value(background))
        assert colours[0] != colours[1]


async def test_a_running_run_is_followed_without_reloading_the_page(browser: Chromium, tmp_path: Path) -> None:
    store = new_run("toy", root=tmp_path)
    finish(store, tasks=("a", "b"))

    def append(task: str, stage: str) -> None:
        entry = JournalEntry(at="", task_id=task, trial=1, attempt=1, stage=stage, cause=Cause.SOLVED)  # type: ignore[arg-type]
        with store.journal.open("ab") as file:
            file.write(msgspec.json.encode(entry) + b"\n")

    recording = store.logs("b", 1, 1) / "cassette.jsonl"
    recording.parent.mkdir(parents=True)
    lock = ExitStack()
    lock.enter_context(file_lock(store.folder / ".lock", what="it", wait_seconds=0))
    cost = "document.querySelectorAll('.facts div')[2].textContent"
    async with opened(browser, tmp_path) as (page, address):
        await page.go(f"{address}/run/toy/run-001")
        await page.value("window.same = 1")
        append("a", "prepared")
        await page.until("document.querySelector('.pill.solving')")
        store_trial(store, "a")
        append("a", "recorded")
        await page.until("document.querySelector('td .pill.resolved')")
        assert await page.value("document.querySelector('.facts .big').textContent") == "100.0%"
        # The cost and the tokens of a trial that is under way are counted as they come.
        append("b", "prepared")
        await page.until("document.querySelector('.pill.solving')")
        assert "438 tokens" in await page.value(cost)
        await record_single(recording, "b", ask="Fix it.")
        await page.until(f"{cost}.includes('926 tokens')")
        shown = await page.value("document.querySelectorAll('tbody tr')[1].textContent")
        assert re.search(r"\$0\.00\d\d", shown)
        # A session that has ended leaves nothing that is shown as running.
        lock.close()
        await page.until("document.querySelector('.title .pill.pending')")
        assert await page.value("document.querySelector('.title').textContent") == "toy/run-001stopped; 1 pending"
        assert await page.value("[...document.querySelectorAll('.pill')].map(one => one.textContent).join()") == (
            "stopped; 1 pending,✓ resolved,■ stopped"
        )
        assert "running" not in await page.value("document.querySelector('main').textContent")
        assert await page.value("window.same") == 1


async def test_of_a_large_patch_every_file_is_seen_with_its_numbers(browser: Chromium, tmp_path: Path) -> None:
    store = new_run("toy", root=tmp_path)
    sizes = {"huge.py": 60_000, "small.py": 3, "last.py": 20_000}
    diff = "".join(
        f"diff --git a/{name} b/{name}\n--- a/{name}\n+++ b/{name}\n@@ -0,0 +1,{size} @@\n"
        + "+x = 'a line of it'\n" * size
        for name, size in sizes.items()
    )
    broken = ModelUsage(
        model="m", requests=2, tokens=Tokens(input=9), cost_usd=0.4, estimated_requests=1, estimated_usd=0.1
    )
    store_trial(store, "a", diff=diff, usage=(broken,))
    finish(store)
    async with opened(browser, tmp_path) as (page, address):
        await page.go(f"{address}/run/toy/run-001/task?task=a")
        heading = await page.value("document.querySelector('#patch h2').textContent")
        assert heading.endswith("3 files, +80003 \N{MINUS SIGN}0")
        files = await page.value("[...document.querySelectorAll('#patch summary')].map(one => one.textContent)")
        assert files == [f"{name} +{size} \N{MINUS SIGN}0" for name, size in sizes.items()]
        notes = await page.value("[...document.querySelectorAll('#patch details p')].map(one => one.textContent)")
        assert len(notes) == 2
        assert all(re.fullmatch(r"[\d,]+ more lines are in submission.diff\.", note) for note in notes)
        # The lines of a large file are not in the page: they come when it is near the screen.
        served = "fetch(location.href).then(got => got.text()).then(text => text.split('<tr').length)"
        assert await page.value(served) < 1000
        await page.until(
            "(() => { const more = document.querySelector('#patch [data-more]');"
            " if (more) { more.closest('details').open = true; more.scrollIntoView(); }"
            " return !more && document.querySelectorAll('#patch tr').length === 4000; })()"
        )
        # What of the cost is an estimate is said here, in the run, and in the list of runs.
        assert "≤ $0.40" in await page.value("document.querySelector('.facts').textContent")
        estimate = "$0.10 of it is an upper estimate"
        assert f"{estimate}, of 1 request without" in await page.value("document.querySelector('.facts').textContent")
        await page.go(f"{address}/run/toy/run-001")
        assert estimate in await page.value("document.querySelector('.facts').textContent")
        await page.go(address)
        assert "≤ $0.40" in await page.value("document.querySelector('tbody').textContent")
