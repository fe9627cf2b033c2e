import asyncio
import html
import re
import socket
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import pytest

from proctor.agents.h2.events import AgentActivity, SentMessage
from proctor.agents.h2.timeline import TIMELINE_FILE, ActivitySpan, AgentTimeline, Timeline
from proctor.core.causes import Cause
from proctor.core.errors import InfrastructureError
from proctor.core.record import to_json
from proctor.core.result import AgentMetrics, Member, ModelUsage, Tokens
from proctor.core.run import JournalEntry
from proctor.core.verdict import Finding
from proctor.report.comparison import compare_runs
from proctor.report.run_index import RunIndex
from proctor.report.trajectories import from_atif
from proctor.report.viewer import serve
from proctor.results import RunStore, find_run, new_run
from recorded import record_pod, record_single
from stored_runs import finish, small_run, store_trial
from viewing import viewer
from waiting import PATIENCE

EVIL = "<script>pwned=1</script><img src=x onerror=pwned=1>\"'&{{7*7}}"


class Site:
    """A viewer with a client."""

    def __init__(self, address: str, http: aiohttp.ClientSession, root: Path) -> None:
        self.address = address
        self.http = http
        self.root = root

    async def get(self, path: str, **options: Any) -> tuple[int, str, dict[str, str]]:
        async with self.http.get(self.address + path, **options) as response:
            return response.status, await response.text(), dict(response.headers)


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[Site]:
    async with viewer(tmp_path) as address, aiohttp.ClientSession() as http:
        yield Site(address, http, tmp_path)


PAGES = (
    "/",
    "/run/toy/run-001",
    "/run/toy/run-001/task?task=org/one",
    "/run/toy/run-001/task?task=three",
    "/run/toy/run-001/task?task=two&trial=2",
    "/compare?run=toy/run-001&run=toy/run-002",
    "/compare",
    "/nonsense",
    "/run/toy/run-009",
)


async def test_every_page_has_the_security_headers(site: Site) -> None:
    small_run(site.root)
    small_run(site.root)
    for page in (*PAGES, "/static/view.css", "/run/toy/run-001/file?task=two&attempt=1&path=answer.json"):
        status, text, headers = await site.get(page)
        assert status in {200, 404}, (page, text)
        policy = headers["Content-Security-Policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert "frame-ancestors 'none'" in policy
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert headers["Cross-Origin-Resource-Policy"] == "same-origin"
        assert " style=" not in text
        assert " onclick" not in text


async def test_requests_under_another_name_are_refused(site: Site) -> None:
    port = site.address.rpartition(":")[2]
    for host in (f"127.0.0.1:{port}", f"localhost:{port}", f"LOCALHOST:{port}", "localhost"):  # port 80 has none
        assert (await site.get("/", headers={"Host": host}))[0] == 200
    for host in ("evil.example", f"evil.example:{port}", f"127.0.0.1.evil.example:{port}", ""):
        status, text, _ = await site.get("/", headers={"Host": host})
        assert status == 421, host
        assert "Runs" not in text


async def test_it_listens_on_loopback_only(site: Site) -> None:
    port = int(site.address.rpartition(":")[2])
    assert site.address.startswith("http://127.0.0.1:")
    outside = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    try:
        outside.connect(("192.0.2.1", 9))  # asks the routing table; nothing is sent
        own = outside.getsockname()[0]
    except OSError:
        own = "127.0.0.2"
    finally:
        outside.close()
    with pytest.raises(OSError):
        await asyncio.open_connection(own if own != "127.0.0.1" else "127.0.0.2", port)


async def test_it_is_read_only_and_other_sites_cannot_read(site: Site) -> None:
    small_run(site.root)
    for method in ("POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"):
        async with site.http.request(method, site.address + "/run/toy/run-001") as response:
            assert response.status == 405, method
    for elsewhere in ("cross-site", "same-site"):
        cross_site = {"Sec-Fetch-Site": elsewhere, "Sec-Fetch-Mode": "cors"}
        assert (await site.get("/run/toy/run-001", headers=cross_site))[0] == 403
        assert (await site.get("/", headers={**cross_site, "Sec-Fetch-Mode": "navigate"}))[0] == 200


async def test_files_are_shown_as_text_and_only_those_in_the_list(site: Site) -> None:
    store = small_run(site.root)
    logs = store.logs("two", 1, 1)
    (site.root / "secret").write_text("secret")
    (logs / "page.html").write_text("<script>alert(1)</script>")
    (logs / "link").symlink_to(site.root / "secret")
    (logs / "folder").symlink_to(site.root)
    base = "/run/toy/run-001/file?task=two&attempt=1&path="
    status, text, headers = await site.get(base + "page.html")
    assert (status, text) == (200, "<script>alert(1)</script>")
    assert headers["Content-Type"] == "text/plain; charset=utf-8"
    assert "sandbox" in headers["Content-Security-Policy"]
    paths = (
        "link",
        "folder/secret",
        "../../../config.json",
        "/etc/passwd",
        "..%2f..%2f..%2fconfig.json",
        ".",
        "",
        "%00",
    )
    for path in paths:
        status, text, _ = await site.get(base + path)
        assert status == 404, path
        assert "secret" not in text.replace("folder/secret", "")
    for path in (
        "/static/../pages.py",
        "/static/%2e%2e%2fpages.py",
        "/run/toy/..%2f..",
        "/run/../toy",
        "/run/%2e%2e/toy",
    ):
        assert (await site.get(path))[0] == 404, path


async def test_what_an_agent_wrote_is_escaped(site: Site) -> None:
    store = new_run("toy", root=site.root)
    diff = f"diff --git a/{EVIL} b/{EVIL}\n--- a/x\n+++ b/{EVIL}\n@@ -1 +1 @@ {EVIL}\n-{EVIL}\n+{EVIL}\n {EVIL}\n"
    store_trial(
        store,
        f"evil {EVIL}",
        Cause.TESTS_FAILED,
        diff=diff,
        findings=(Finding(code=EVIL, path=EVIL, detail=EVIL),),
        categories={EVIL: EVIL},
    )
    logs = store.logs(f"evil {EVIL}", 1, 1)
    (logs / f"{EVIL.replace('/', '')}.log").write_text(EVIL)
    await record_single(logs / "cassette.jsonl", "t", say=EVIL, output=EVIL, ask=EVIL)
    finish(store, agent=EVIL, model=EVIL, versions={EVIL: EVIL})
    task = f"evil {EVIL}"
    for path, query in (
        ("/", {"q": EVIL}),
        ("/run/toy/run-001", {"q": "evil", "status": EVIL, "cause": EVIL, "sort": EVIL, "page": EVIL}),
        ("/run/toy/run-001", {}),
        ("/run/toy/run-001/task", {"task": task}),
        ("/run/toy/run-001/task", {"task": EVIL, "lane": EVIL}),
        ("/run/toy/run-001/file", {"task": task, "path": EVIL}),
        ("/compare", [("run", "toy/run-001"), ("run", "toy/run-001"), ("q", EVIL)]),
        ("/compare", [("run", EVIL), ("run", EVIL)]),
    ):
        status, text, _ = await site.get(path, params=query)
        assert status in {200, 404}, (path, text)
        assert "<script>p" not in text
        assert "<img src=x" not in text
    _, text, _ = await site.get("/run/toy/run-001/task", params={"task": task})
    # In every place: name, category, finding, patch, instruction, step, output, file.
    assert text.count("&lt;script&gt;") >= 15
    assert text.count("{{7*7}}") >= 15


async def test_a_pod_has_its_lanes_and_one_can_be_chosen(site: Site) -> None:
    store = small_run(site.root)
    await record_pod(store.logs("two", 1, 1) / "cassette.jsonl", "two")
    _, text, _ = await site.get("/run/toy/run-001/task?task=two")
    assert 'class="steps grid lanes-3"' in text
    assert text.count('<li class="step') == 8
    for lane in ("coder/main", "coder/subagent-1", "reviewer/main"):
        assert lane in text
    _, text, _ = await site.get("/run/toy/run-001/task?task=two&lane=reviewer/main")
    assert text.count('<li class="step') == 2
    assert "no result" not in text
    status, body, headers = await site.get("/run/toy/run-001/atif?task=two&attempt=1")
    assert (status, headers["Content-Disposition"]) == (200, 'attachment; filename="trajectory.json"')
    assert len(from_atif(body.encode()).lanes) == 3


async def test_a_pod_shows_the_active_time_and_cost_of_each_member(site: Site) -> None:
    store = small_run(site.root)
    usage = (ModelUsage(model="m", requests=2, tokens=Tokens(input=1500), cost_usd=0.5),)
    members = (
        Member(name="lead", role="planner <b>", usage=usage, active_seconds=30, idle_seconds=30, turns=4, messages=1),
        Member(name="coder", role="coder", usage=(*usage, *usage), active_seconds=20, turns=2),
    )
    store_trial(store, "two", Cause.TESTS_FAILED, metrics=AgentMetrics(agents=2, members=members, messages=1))
    timeline = Timeline(
        started_at=0.0,
        seconds=60.0,
        agents=(
            AgentTimeline(
                name="lead", role="planner", spans=(ActivitySpan(start=0, end=30, activity=AgentActivity.WORKING),)
            ),
            AgentTimeline(
                name="coder",
                role="coder",
                spans=(ActivitySpan(start=30, end=50, activity=AgentActivity.AWAITING_USER),),
            ),
        ),
        messages=(SentMessage(at=15.0, sender="lead", to="coder"),),
    )
    await record_pod(store.logs("two", 1, 1) / "cassette.jsonl", "two")
    (store.logs("two", 1, 1) / TIMELINE_FILE).write_bytes(to_json(timeline))
    status, text, _ = await site.get("/run/toy/run-001/task?task=two")
    assert status == 200, text
    assert '<rect class="tl-span tl-working" x="0.0" width="500.0"' in text
    assert '<rect class="tl-span tl-awaiting_user" x="500.0"' in text
    assert '<ellipse class="tl-message" cx="250.0"' in text
    assert "planner &lt;b&gt;" in text
    assert "3.0k</td>" in text
    assert "$1.00</td>" in text
    (store.logs("two", 1, 1) / TIMELINE_FILE).write_text("{")
    assert (await site.get("/run/toy/run-001/task?task=two"))[0] == 200


async def test_the_instruction_is_the_benchmarks_where_the_logs_have_none(site: Site) -> None:
    store = new_run("core-mini", root=site.root)
    store_trial(store, "py_cache_0001")
    store_trial(store, "py_duration_0002")
    await record_pod(store.logs("py_duration_0002", 1, 1) / "cassette.jsonl", "py_duration_0002")
    finish(store, benchmark="core-mini", source="core-mini")
    page = "/run/core-mini/run-001/task?task="
    assert "The cache gets smaller and smaller" in (await site.get(page + "py_cache_0001"))[1]
    # The first message of a pod may only say where to read the task.
    text = (await site.get(page + "py_duration_0002"))[1]
    assert "waits for four hours" in text[: text.index("Trajectory <")]


async def test_a_broken_recording_is_a_sentence_on_the_page_and_the_rest_is_there(site: Site) -> None:
    store = small_run(site.root)
    (store.logs("two", 1, 1) / "cassette.jsonl").write_text("{}\n")
    status, text, _ = await site.get("/run/toy/run-001/task?task=two")
    assert status == 200
    assert "line 1 is not part of a recording" in text
    assert "a test fails" in text
    assert (await site.get("/run/toy/run-001/atif?task=two&attempt=1"))[0] == 404


async def test_a_missing_page_is_a_sentence(site: Site) -> None:
    assert "No run yet" in (await site.get("/"))[1]
    store = small_run(site.root)
    for path in ("/run/toy/run-007", "/run/toy/run-001/task?task=nobody", "/run/toy/run-001/task?task=two&trial=9"):
        status, text, _ = await site.get(path)
        assert status == 404, path
        assert "there is no run" in text or "has no task" in text
    store.result_file("two", 1).unlink()
    status, text, _ = await site.get("/run/toy/run-001/task?task=two")
    assert (status, "has no result of task &#39;two&#39;" in text) == (404, True)
    (store.folder / "config.json").write_text("{")
    status, text, _ = await site.get("/")
    assert "this is not JSON" in text


async def test_one_is_singular_and_many_are_plural(site: Site) -> None:
    small_run(site.root)
    _, text, _ = await site.get("/run/toy/run-001")
    assert ">1 error, 0 skipped<" in text
    assert ">6 trials<" in text
    _, text, _ = await site.get("/run/toy/run-001?q=provider")
    assert ">1 trial<" in text
    _, text, _ = await site.get("/")
    assert "claude-sonnet-4-5; 1 error<" in text


async def test_an_unknown_time_is_not_shown_as_zero(site: Site) -> None:
    store = new_run("toy", root=site.root)
    store_trial(store, "a", agent_seconds=0.0, grade_seconds=0.0)
    finish(store)
    other = small_run(site.root)
    for page in ("/", "/run/toy/run-001", "/run/toy/run-001/task?task=a"):
        _, text, _ = await site.get(page)
        assert "0.0s" not in text.replace("+0.0s", ""), page
    _, text, _ = await site.get(f"/compare?run=toy/run-001&run=toy/{other.run_id}")
    assert ">0.0s<" not in text


async def test_two_runs_are_compared_task_by_task(site: Site) -> None:
    small_run(site.root)
    second = new_run("toy", root=site.root)
    store_trial(second, "org/one", Cause.TESTS_FAILED)
    store_trial(second, "two", Cause.SOLVED)
    store_trial(second, "four", Cause.SOLVED)
    finish(second, model="another")
    query = "/compare?run=toy/run-001&run=toy/run-002"
    status, text, _ = await site.get(query)
    assert status == 200, text
    assert "different conditions" in text
    assert "a mean rate of 50.0% against 25.0% on 2 common tasks; p = 1.000" in text
    assert "model: claude-sonnet-4-5 and another" in text
    _, text, _ = await site.get(query + "&flip=gained")
    assert text.count("data-row") == 1
    assert ">two<" in text
    _, text, _ = await site.get("/compare?run=toy/run-001&run=toy/run-001")
    assert "Choose two or more runs" in text
    assert "No difference" not in text


async def test_several_trials_are_compared_as_every_other_report_compares_them(site: Site) -> None:
    for marks in (("+---", "----", "----", "+---", "++--", "++--"), ("+++-", "++--", "++--", "+++-", "++++", "+++-")):
        store = new_run("toy", root=site.root)
        for task, trials in zip("abcdef", marks, strict=True):
            for number, mark in enumerate(trials, start=1):
                cause = Cause.SOLVED if mark == "+" else Cause.TESTS_FAILED
                store_trial(store, task, cause, trial=number, logs=False)
        finish(store)
    _, text, _ = await site.get("/compare?run=toy/run-001&run=toy/run-002")
    sentence = (
        "is better than run-001 (a mean rate of 70.8% against 25.0% on 6 common tasks; p = 0.031, "
        "paired permutation test on per-task rates)."
    )
    assert sentence in text
    _, (pair,) = compare_runs([find_run(f"toy/run-00{number}", root=site.root) for number in (1, 2)])
    assert pair.comparison.sentence == f"run-002 {sentence}"


async def first_lines(stream: AsyncIterator[bytes], count: int) -> AsyncIterator[bytes]:
    for _ in range(count):
        yield await anext(stream)


async def test_a_page_that_is_out_of_date_is_notified(site: Site) -> None:
    store = new_run("toy", root=site.root)
    finish(store, tasks=("a", "b"))

    async def events(path: str) -> AsyncIterator[bytes]:
        async with site.http.get(site.address + path) as response:
            assert response.headers["Content-Type"] == "text/event-stream"
            async for line in response.content:
                yield line

    listening = events("/run/toy/run-001/events")
    assert await anext(listening) == b": connected\n"
    entry = JournalEntry(at="", task_id="a", trial=1, attempt=1, stage="prepared")
    with store.journal.open("ab") as file:
        file.write(msgspec.json.encode(entry) + b"\n")
    async with asyncio.timeout(PATIENCE):
        async for line in listening:
            if line.startswith(b"event: changed"):
                break
    _, text, _ = await site.get("/run/toy/run-001")
    assert "stopped" in text
    # A page that is older than its event stream is notified of the changes in between.
    before = re.search(r'data-events="([^"]+)"', text)
    assert before is not None
    with store.journal.open("ab") as file:
        file.write(msgspec.json.encode(msgspec.structs.replace(entry, task_id="b")) + b"\n")
    late = events(html.unescape(before[1]))
    async with asyncio.timeout(PATIENCE):
        assert any([line.startswith(b"event: changed") async for line in first_lines(late, 3)])
    task = events("/run/toy/run-001/events?task=a")
    assert await anext(task) == b": connected\n"
    await record_single(store.logs("a", 1, 1) / "cassette.jsonl", "a", ask="Do it.")
    async with asyncio.timeout(PATIENCE):
        async for line in task:
            if line.startswith(b"event: changed"):
                break
    _, text, _ = await site.get("/run/toy/run-001/task?task=a")
    assert "I edit." in text
    for stream in (listening, task, late):
        await stream.aclose()  # type: ignore[attr-defined]


async def test_a_port_that_is_taken_is_replaced_unless_it_was_given(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        stopped = asyncio.Event()
        stopped.set()
        urls: list[str] = []
        await serve(RunIndex(tmp_path), port=port, strict_port=False, on_ready=urls.append, stop=stopped)
        assert str(port) not in urls[0]
        with pytest.raises(InfrastructureError, match=f"cannot listen on port {port}"):
            await serve(RunIndex(tmp_path), port=port, strict_port=True, on_ready=urls.append, stop=stopped)


async def test_an_invalid_request_is_refused_without_output_at_the_terminal(
    site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    status, _, _ = await site.get("/" + "a" * 300_000)
    assert status == 400
    port = int(site.address.rpartition(":")[2])
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"\x16\x03\x01\x00 no HTTP at all\r\n\r\n")
    assert b" 400 " in await reader.read()
    writer.close()
    assert caplog.records == []  # without a logging configuration, as in a command, these are printed


def test_viewing_does_not_change_the_store(tmp_path: Path) -> None:
    store: RunStore = small_run(tmp_path)
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}

    async def view() -> None:
        async with viewer(tmp_path) as address, aiohttp.ClientSession() as http:
            for page in PAGES:
                async with http.get(address + page) as response:
                    await response.read()

    asyncio.run(view())
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")} == before
    assert store.folder.exists()
