import json
import os
import signal
import sys
import time
from pathlib import Path

import pytest

from proctor.core.errors import InfrastructureError
from proctor.sandboxes import Sandbox, Sandboxes
from proctor.sandboxes.processes import SandboxProcess, send_signal
from proctor.sandboxes.stop import StopTimeouts, stop_everything
from waiting import PATIENCE, until

from .support import launch_pod, launch_whole_pod, process, running_in

SHORT = StopTimeouts(graceful=0.5, terminate=0.2, kill=PATIENCE)


@pytest.fixture
def sandbox(store: Sandboxes) -> Sandbox:
    return store.create("b1", preset="opus")


def scenario(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, **fields: object) -> None:
    (tmp_path / "scenario.json").write_text(json.dumps(fields))
    monkeypatch.setenv("H2_STANDIN", str(tmp_path / "scenario.json"))


def test_a_pod_its_children_and_what_left_them_are_gone(sandbox: Sandbox, tmp_path: Path) -> None:
    launch_whole_pod(sandbox, tmp_path)
    stopped = stop_everything(sandbox.home)
    assert running_in(sandbox.home) == []
    daemons = [each for each in stopped if "_daemon" in each.command]
    grandchildren = [each for each in stopped if each.command[0] == "sleep"]
    assert len(daemons) == len(grandchildren) == 4
    assert not [pid for pid in (each.pid for each in stopped) if alive(pid)]


def alive(pid: int) -> bool:
    try:
        return "State:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_agents_are_asked_before_they_are_killed(sandbox: Sandbox, tmp_path: Path) -> None:
    launch_whole_pod(sandbox, tmp_path)
    signals: list[tuple[str, int]] = []

    def note(found: SandboxProcess, number: int) -> None:
        signals.append((found.command[0], number))
        send_signal(found, number)

    stop_everything(sandbox.home, send=note)
    assert {command for command, _ in signals} <= {"sleep", "sh"}, "a daemon that stops when asked gets no signal"
    assert list((sandbox.home / "sockets").iterdir()) == []


def test_a_pod_that_ignores_stop_requests_is_killed(
    sandbox: Sandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scenario(tmp_path, monkeypatch, ignore_term=True, ignore_stop=True, grandchildren=2)
    launch_pod(sandbox, tmp_path)
    stop_everything(sandbox.home, timeouts=SHORT)
    assert running_in(sandbox.home) == []


def test_a_daemon_that_hangs_is_killed(sandbox: Sandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scenario(tmp_path, monkeypatch, agents={"reviewer": {"hang": True}})
    launch_pod(sandbox, tmp_path)
    stop_everything(sandbox.home, timeouts=SHORT)
    assert running_in(sandbox.home) == []


def test_a_process_that_is_stopped_is_killed(sandbox: Sandbox) -> None:
    with process("", {"H2_DIR": str(sandbox.home)}) as started:
        os.kill(started.pid, signal.SIGSTOP)
        stop_everything(sandbox.home, timeouts=SHORT)
        assert started.wait(PATIENCE) in {
            -signal.SIGKILL,
            -signal.SIGTERM,
        }  # the stop may be slower than the first signal


def test_a_daemon_that_was_killed_leaves_a_socket_that_does_no_harm(sandbox: Sandbox, tmp_path: Path) -> None:
    launch_pod(sandbox, tmp_path)
    for found in stop_everything(sandbox.home, send=send_signal):
        assert not alive(found.pid)
    launch_whole_pod(sandbox, tmp_path)
    daemons = [line for line in running_in(sandbox.home) if "_daemon" in line]
    for line in daemons:
        os.kill(int(line.partition(" ")[0]), signal.SIGKILL)
    assert len(list((sandbox.home / "sockets").iterdir())) == 4
    started = time.monotonic()
    stop_everything(sandbox.home)
    assert time.monotonic() - started < 20  # their sockets are dead, so nobody is waited for
    assert running_in(sandbox.home) == []


# A new process every 20 ms, in a session of its own, deaf to SIGTERM, whose parent ends at once: only one lives.
# Where nobody catches it, a minute is its life.
RABBIT = """
import os, signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
end = time.monotonic() + 60
if os.fork() == 0:
    while time.monotonic() < end:
        if os.fork():
            os._exit(0)
        os.setsid()
        time.sleep(0.02)
"""
# Children faster than they can be looked at one by one.
SWARM = """
import os, signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
end = time.monotonic() + 60
if os.fork() == 0:
    while time.monotonic() < end:
        if os.fork() == 0:
            os.setsid()
            time.sleep(60)
        time.sleep(0.002)
"""


@pytest.mark.parametrize("code", [RABBIT, SWARM], ids=["rabbit", "swarm"])
def test_a_process_that_keeps_forking_is_killed(sandbox: Sandbox, code: str) -> None:
    with process(code, {"H2_DIR": str(sandbox.home)}):
        until(lambda: len(running_in(sandbox.home)) > 1)
        stop_everything(sandbox.home, timeouts=SHORT)
        time.sleep(0.1)
        assert running_in(sandbox.home) == []


def test_children_without_an_environment_go_with_their_parents(sandbox: Sandbox) -> None:
    code = "import subprocess; subprocess.Popen(['sleep', '77'], env={}, start_new_session=True)"
    with process(code, {"H2_DIR": str(sandbox.home)}):
        # A program that is just being started has no arguments yet.
        until(lambda: any("(sleep 77)" in line for line in running_in(sandbox.home)))
        stopped = stop_everything(sandbox.home)
    (orphan,) = [each for each in stopped if each.command == ("sleep", "77")]
    assert not alive(orphan.pid)


def test_processes_of_other_sandboxes_are_not_stopped(sandbox: Sandbox, store: Sandboxes, tmp_path: Path) -> None:
    other = store.create("b10", preset="opus")
    launch_whole_pod(other, tmp_path)
    before = running_in(other.home)
    with process("", {"H2_DIR": str(sandbox.home)}), process("", {"SOME": str(sandbox.home)}) as bystander:
        stop_everything(sandbox.home)
        assert bystander.poll() is None
    assert running_in(other.home) == before


def test_a_process_that_survives_a_kill_is_named(sandbox: Sandbox) -> None:
    def powerless(_: SandboxProcess, __: int) -> None:
        pass

    patience = StopTimeouts(graceful=0, terminate=0.05, kill=0.05)
    with process("", {"H2_DIR": str(sandbox.home)}) as started:
        with pytest.raises(
            InfrastructureError, match=rf"b1: did not die when killed: {started.pid} \(.*python"
        ) as error:
            stop_everything(sandbox.home, timeouts=patience, send=powerless)
        assert error.value.exit_code == 12


def test_many_survivors_make_one_sentence(sandbox: Sandbox) -> None:
    code = "import subprocess\nfor _ in range(8): subprocess.Popen(['sleep', '78'])"
    patience = StopTimeouts(graceful=0, terminate=0.05, kill=0.05)
    with process(code, {"H2_DIR": str(sandbox.home)}):
        with pytest.raises(InfrastructureError, match="and 4 more"):
            stop_everything(sandbox.home, timeouts=patience, send=lambda _, __: None)
        stop_everything(sandbox.home)


@pytest.mark.parametrize("action", ["stop", "reset", "destroy"])
def test_a_sandbox_is_not_stopped_from_within(sandbox: Sandbox, store: Sandboxes, action: str) -> None:
    code = f"""
import sys
from pathlib import Path
from proctor.core.errors import UsageError
from proctor.sandboxes import Sandboxes
try:
    Sandboxes(Path({str(store.root)!r})).{action}("b1")
except UsageError as error:
    sys.exit(error.sentence)
"""
    # An empty environment of its own does not help: its parent is still in there.
    nested = f"import subprocess, sys; sys.exit(subprocess.run([sys.executable, '-c', {code!r}], env={{}}).returncode)"
    for script in (code, nested):
        inside = sandbox.run([sys.executable, "-c", script])
        assert inside.returncode == 1
        assert inside.stderr.startswith("b1: this command itself runs inside the sandbox")
    assert sandbox.home.is_dir()


def test_without_proc_the_same_is_done_through_psutil(sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("proctor.sandboxes.processes._HAS_PROC", False)
    with process("", {"H2_DIR": str(sandbox.home)}) as started:
        (stopped,) = stop_everything(sandbox.home)
        assert stopped.pid == started.pid
        assert started.wait(PATIENCE) == -signal.SIGTERM
    assert stop_everything(sandbox.home) == []


def test_stopping_an_idle_sandbox_does_nothing(sandbox: Sandbox) -> None:
    assert stop_everything(sandbox.home) == []
