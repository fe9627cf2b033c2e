import asyncio
import json
import os
import signal
import sys
from pathlib import Path

import pytest
from aiohttp import web

from documents import checked
from proctor.cli.dispatch import dispatch
from proctor.core.causes import Cause
from proctor.core.errors import UsageError
from proctor.results import RunStore, new_run
from proctor.runner import notify as notify_module
from proctor.runner.notify import Notifier, check_targets
from proctor.runner.state import Session
from stored_runs import finish, store_trial
from waiting import until


@pytest.fixture
def store(tmp_path: Path) -> RunStore:
    store = new_run("toy", root=tmp_path / "results")
    store_trial(store, "a", Cause.SOLVED, logs=False)
    finish(store, tasks=("a", "b"), name="nightly")
    return store


async def notify(store: RunStore, *targets: str, error: BaseException | None = None) -> list[str]:
    """What is logged of a session with these targets."""
    logged: list[str] = []
    try:
        async with Notifier(targets, Session(log=logged.append)) as notifier:
            notifier.stores = [store]
            if error is not None:
                raise error
    except BaseException as raised:
        if raised is not error:
            raise
    return logged


async def test_a_command_reads_what_became_of_the_run(store: RunStore, tmp_path: Path) -> None:
    assert await notify(store, f"tee {tmp_path / 'said.json'}") == []
    said = checked((tmp_path / "said.json").read_text())
    assert (said["state"], said["sweep"]) == ("stopped", None)
    (run,) = said["runs"]
    assert (run["run"], run["name"], run["trials_left"], run["summary"]["resolved"]) == ("toy/run-001", "nightly", 1, 1)


async def test_a_web_hook_is_sent_the_same(store: RunStore) -> None:
    received = []

    async def hook(request: web.Request) -> web.Response:
        received.append(await request.json())
        return web.Response(status=204 if len(received) == 1 else 500)

    app = web.Application()
    app.router.add_post("/secret", hook)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        port = runner.addresses[0][1]
        assert await notify(store, f"http://127.0.0.1:{port}/secret", error=asyncio.CancelledError()) == []
        logged = await notify(store, f"http://127.0.0.1:{port}/secret", error=UsageError("so it is"))
        assert logged == [f"--notify http://127.0.0.1:{port} failed: HTTP status 500"]
    finally:
        await runner.cleanup()
    assert [(one["state"], one["detail"]) for one in received] == [
        ("interrupted", "CancelledError"),
        ("failed", "so it is"),
    ]


async def test_one_that_fails_is_logged_and_the_next_is_called(store: RunStore, tmp_path: Path) -> None:
    targets = ("/no/such/program key", "sh -c 'echo it broke >&2; exit 3'", f"tee {tmp_path / 'said'}")
    logged = await notify(store, *targets)
    assert logged[0].startswith("--notify /no/such/program failed: ")
    assert "key" not in logged[0]
    assert logged[1].endswith("exit code 3: it broke")
    assert (tmp_path / "said").exists()


async def test_one_that_hangs_is_ended_with_all_that_it_started(
    store: RunStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notify_module, "NOTIFY_SECONDS", 1.0)
    script = tmp_path / "hang"
    script.write_text(f"#!/bin/sh\nsleep 3600 & echo $! > {tmp_path / 'child'}\nwait\n")
    script.chmod(0o755)
    assert await notify(store, f"{script} --key dummy") == [f"--notify {script} failed: it has not ended within 1 s"]
    child = Path("/proc", (tmp_path / "child").read_text().strip())
    until(lambda: not child.exists() or "Z" in (child / "stat").read_text())


async def test_what_goes_on_in_the_background_is_not_waited_for(store: RunStore, tmp_path: Path) -> None:
    command = f"sh -c 'sleep 3600 & echo $! > {tmp_path / 'child'}'"
    assert await notify(store, command) == []
    os.kill(int((tmp_path / "child").read_text()), signal.SIGKILL)


async def test_the_address_of_a_web_hook_is_in_no_message(store: RunStore) -> None:
    for target in ("http://user:secret@127.0.0.1:9/secret?secret", "http://127.0.0.1:9/secret"):
        (line,) = await notify(store, target)
        assert line.startswith("--notify http://127.0.0.1:9 failed: ")
        assert "secret" not in line


async def test_one_sentence_says_all_of_it(store: RunStore, tmp_path: Path) -> None:
    """Under the key that chat services show."""
    await notify(store, f"tee {tmp_path / 'said.json'}", error=UsageError("so it is"))
    said = json.loads((tmp_path / "said.json").read_text())["text"]
    assert said == "failed (so it is): toy/run-001 (nightly): 1 of 1 resolved, 0 errors, 1 trial left, $0.25"


@pytest.mark.parametrize(
    "target", ["", "unclosed 'quote", "no-such-program --now", "https://", "http://[", "https:///x"]
)
def test_a_callback_that_is_not_callable_is_refused_before_anything_is_spent(target: str) -> None:
    with pytest.raises(UsageError, match="--notify"):
        check_targets([target])


def test_a_run_notifies_and_its_address_is_stored_nowhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PROCTOR_RESULTS", str(tmp_path / "results"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    command = f"{sys.executable} -c 'import sys; open(sys.argv[1], \"w\").write(sys.stdin.read())' {tmp_path / 'said'}"
    options = ["--agent", "nop", "--isolation", "off", "--limit", "1", "--quiet"]
    assert dispatch(["bench", "run", "core-mini", *options, "--notify", command, "--notify", "false"]) == 0
    assert "--notify false failed: exit code 1" in capsys.readouterr().err
    assert json.loads((tmp_path / "said").read_text())["state"] == "finished"
    assert json.loads((tmp_path / "results/core-mini/run-001/config.json").read_text())["notify"] == []
