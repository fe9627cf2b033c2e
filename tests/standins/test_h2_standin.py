"""The stand-in does what h2 does, as far as later tests rely on it."""

import json
import os
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

STANDINS = Path(__file__).parent


class H2:
    """The stand-in on an H2_DIR of its own."""

    def __init__(self, folder: Path, temporary: str) -> None:
        self.dir = folder / "h2"
        self.cwd = folder / "work"
        self.cwd.mkdir()
        (self.dir / "roles").mkdir(parents=True)
        (self.dir / "pods").mkdir()
        (self.dir / "claude-config" / "default").mkdir(parents=True)
        (self.dir / ".h2-dir.txt").touch()
        (self.dir / "roles" / "default.yaml").write_text("role_name: default\n")
        self.scenario = folder / "scenario.json"
        self.environ = {
            "PATH": f"{STANDINS}:{Path(sys.executable).parent}:/usr/bin:/bin",
            "HOME": str(folder),
            "TMPDIR": temporary,
            "H2_DIR": str(self.dir),
            "H2_ACTOR": "bench",
        }

    def script(self, **fields: object) -> None:
        self.scenario.write_text(json.dumps(fields))
        self.environ["H2_STANDIN"] = str(self.scenario)

    def __call__(self, *arguments: str, stdin: str = "", **variables: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            ["h2", *arguments],
            capture_output=True,
            text=True,
            check=False,
            input=stdin,
            cwd=self.cwd,
            env={**self.environ, **variables},
        )

    def status(self, name: str) -> dict[str, Any]:
        value: dict[str, Any] = json.loads(self("status", name).stdout)
        return value

    def wait_for(self, name: str, state: str) -> None:
        until(lambda: self.status(name)["state"] == state)

    def events(self, name: str) -> list[str]:
        lines = (self.dir / "sessions" / name / "events.jsonl").read_text().splitlines()
        return [event["type"] for event in map(json.loads, lines)]

    def processes(self) -> dict[int, str]:
        """What runs with this H2_DIR, by pid."""
        found = {}
        for path in Path("/proc").glob("[0-9]*"):
            try:
                if f"H2_DIR={self.dir}\0".encode() in (path / "environ").read_bytes():
                    found[int(path.name)] = (path / "cmdline").read_text().replace("\0", " ")
            except OSError:
                continue
        return found

    def daemon(self) -> int:
        return next(pid for pid, command in self.processes().items() if "_daemon" in command)


def until(happens: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not happens():
        assert time.monotonic() < deadline
        time.sleep(0.02)


# A step of a turn that ends when the test has seen enough: on a busy machine, no number of seconds is enough.
WAIT = "until [ -e {} ]; do sleep 0.02; done"


@pytest.fixture
def h2(tmp_path: Path) -> Iterator[H2]:
    # Sockets are reached through a link below it, and a socket's path must be short.
    temporary = tempfile.mkdtemp(prefix="h2-", dir="/tmp")
    made = H2(tmp_path, temporary)
    yield made
    while left := made.processes():
        for pid in left:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        time.sleep(0.02)
    shutil.rmtree(temporary, ignore_errors=True)


def test_an_agent_outlives_the_command_that_started_it(h2: H2) -> None:
    started = h2("run", "worker", "--role", "default", "--detach")
    assert (started.returncode, started.stdout) == (0, "")
    assert started.stderr == "Agent \"worker\" started (detached). Use 'h2 attach worker' to connect.\n"
    daemon = h2.daemon()
    assert os.getsid(daemon) == daemon
    assert Path(f"/proc/{daemon}/cmdline").read_text().split("\0")[-3:-1] == [
        "--session-dir",
        f"{h2.dir}/sessions/worker",
    ]
    h2.wait_for("worker", "idle")
    assert h2.status("worker")["cwd"] == str(h2.cwd)
    assert h2("run", "worker").stderr.endswith('error: agent "worker" is already running\n')


def test_a_stop_takes_the_child_and_leaves_what_left_its_session(h2: H2) -> None:
    h2("run", "worker", "--detach")
    until(lambda: any(command.startswith("sleep") for command in h2.processes().values()))
    assert h2("stop", "worker").stdout == "Stopped worker.\n"
    until(lambda: list(h2.processes().values()) == ["sleep 86400 "])
    assert list((h2.dir / "sockets").iterdir()) == []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_killed_daemon_leaves_its_socket_and_its_child_hangs_up(h2: H2, number: signal.Signals) -> None:
    h2("run", "worker", "--detach")
    os.kill(h2.daemon(), number)
    until(lambda: not any("_daemon" in command or "read -r" in command for command in h2.processes().values()))
    assert [path.name for path in (h2.dir / "sockets").iterdir()] == ["agent.worker.sock"]
    assert h2("status", "worker").returncode == 1
    assert h2("run", "worker", "--detach").returncode == 0


def test_a_pod_with_variables_counts_and_overrides(h2: H2) -> None:
    (h2.dir / "pods" / "bench.yaml.tmpl").write_text(
        'variables:\n  dir: {description: "d"}\n  n: {default: "2"}\n'
        "agents:\n"
        "  - name: lead\n    overrides: {working_dir: '{{ .Var.dir }}'}\n"
        "  - name: coder\n    count: {{ .Var.n }}\n"
        "  - name: 'x-{{ add .Index 1 }}'\n    count: 1\n"
    )
    assert "missing required variables: dir" in h2("pod", "launch", "bench").stderr
    assert "unknown variables: typo" in h2("pod", "launch", "bench", "--var", "dir=/", "--var", "typo=1").stderr
    launched = h2("pod", "launch", "bench", "--detach", "--var", "dir=/tmp")
    assert launched.stderr.splitlines()[-1] == 'Pod "bench" launched with 4 agents'
    assert [h2.status(name)["pod"] for name in ("lead", "coder-1", "coder-2", "x-1")] == ["bench"] * 4
    assert h2.status("lead")["cwd"] == "/tmp"
    assert h2("pod", "launch", "bench", "--var", "dir=/tmp").stderr.count("already running") == 4
    assert h2("pod", "stop", "bench").stdout.endswith('Stopped 4 agents and 0 bridges in pod "bench"\n')
    assert h2("pod", "stop", "other").stdout == 'No agents or bridges found in pod "other"\n'


def test_a_message_makes_a_turn(h2: H2) -> None:
    h2.script(turn=[{"hook": "UserPromptSubmit"}, {"run": "echo done > $PWD/result"}, {"after": 0.1, "hook": "Stop"}])
    h2("run", "worker", "--detach")
    (h2.cwd / "task.md").write_text("x" * 400)
    message = h2("send", "worker", "--priority", "idle", "--file", "task.md").stdout.strip()
    until((h2.cwd / "result").exists)
    until(lambda: h2.events("worker")[-1] == "state_change" and h2.status("worker")["state"] == "idle")
    assert h2.events("worker") == ["state_change", "user_prompt", "state_change", "state_change"]
    assert "Status: delivered" in h2("show", message).stdout
    (stored,) = (h2.dir / "messages" / "worker").iterdir()
    assert stored.read_text() == "x" * 400


def test_a_false_idle_after_a_compaction(h2: H2) -> None:
    h2.script(
        turn=[
            {"hook": "UserPromptSubmit"},
            {"hook": "PreCompact"},
            {"hook": "SessionStart", "payload": {"source": "compact"}},
            {"run": WAIT.format("first")},
            {"hook": "PreToolUse", "payload": {"tool_name": "Bash"}},
            {"run": WAIT.format("second")},
            {"hook": "Stop"},
        ]
    )
    h2("run", "worker", "--detach")
    h2.wait_for("worker", "idle")
    h2("send", "worker", "go")
    until(lambda: h2.events("worker").count("state_change") >= 4)
    assert h2.status("worker")["state"] == "idle"
    (h2.cwd / "first").touch()
    until(lambda: h2.status("worker").get("sub_state") == "tool_use")
    (h2.cwd / "second").touch()
    h2.wait_for("worker", "idle")


def test_hooks_and_permissions(h2: H2) -> None:
    h2("run", "worker", "--detach")
    h2.wait_for("worker", "idle")
    request = json.dumps({"hook_event_name": "PermissionRequest", "tool_name": "Bash"})
    assert h2("handle-hook", stdin=request, H2_ACTOR="").returncode == 1
    assert h2("handle-hook", "--agent", "worker", stdin=request).stdout == "{}\n"
    assert h2.status("worker")["blocked_on_permission"] is True
    forced = h2("handle-hook", "--agent", "worker", "--force-permission-request-result", "allow", stdin=request)
    assert json.loads(forced.stdout)["hookSpecificOutput"]["decision"] == {"behavior": "allow"}
    assert h2.status("worker")["sub_state"] == "tool_use"
    logged = [json.loads(line) for line in (h2.dir / "logs" / "session-activity.jsonl").read_text().splitlines()]
    assert {line["actor"] for line in logged} == {"worker"}
    assert "permission_decision" in {line["event"] for line in logged}


def test_a_generic_agent_reads_its_messages_as_lines(h2: H2) -> None:
    stub = h2.cwd / "stub.sh"
    stub.write_text('#!/bin/sh\nwhile read -r line; do echo "$line" >> seen; done\n')
    stub.chmod(0o755)
    (h2.dir / "roles" / "stub.yaml").write_text(
        f"role_name: stub\nagent_harness: generic\nagent_harness_command: {stub}\n"
    )
    h2("run", "g", "--role", "stub", "--detach")
    h2("send", "g", "hello", "there")
    seen = h2.cwd / "seen"
    until(lambda: seen.exists() and seen.read_text() == "[h2 message from: bench] hello there\n")
    until(lambda: "state_change" in h2.events("g"))


def test_an_attach_shows_the_screen(h2: H2) -> None:
    h2.script(child="echo Do you trust this folder?; sleep 60", ready_seconds=None)
    h2("run", "worker", "--detach")
    assert h2.status("worker")["state"] == "initialized"
    until(lambda: b"trust this folder?" in screen(h2))


def screen(h2: H2) -> bytes:
    """What is on the terminal of the only agent, as an attach shows it."""
    with socket.socket(socket.AF_UNIX) as connection:
        link = next((h2.dir / "sockets").iterdir())
        directory = os.open(link.parent, os.O_RDONLY)
        connection.connect(f"/proc/self/fd/{directory}/{link.name}")
        os.close(directory)
        connection.sendall(b'{"type":"attach","cols":80,"rows":22}\n')
        stream = connection.makefile("rb")
        assert json.loads(stream.readline()) == {"ok": True}
        kind, length = struct.unpack(">BI", stream.read(5))
        assert kind == 0
        return stream.read(length)


def test_misbehaviour_is_chosen_by_agent(h2: H2) -> None:
    h2.script(agents={"bad": {"fail": "claude: not found"}, "deaf": {"ignore_stop": True}})
    failed = h2("run", "bad", "--detach")
    assert failed.returncode == 1
    assert "daemon did not start" in failed.stderr
    assert (h2.dir / "sessions" / "bad" / "daemon.stderr.log").read_text() == "error: claude: not found\n"
    h2("run", "deaf", "--detach")
    assert h2("stop", "deaf").returncode == 0
    time.sleep(0.2)
    assert h2.status("deaf")["name"] == "deaf"


def test_a_child_that_ends_is_logged_and_the_daemon_stays(h2: H2) -> None:
    h2.script(child="exit 3")
    h2("run", "worker", "--detach")
    log = h2.dir / "sessions" / "worker" / "daemon.stderr.log"
    until(lambda: log.read_text() == "child process exited (code 3)\n")
    assert h2.status("worker")["name"] == "worker"


def test_a_folder_that_is_not_an_h2_directory_is_refused(h2: H2) -> None:
    (h2.dir / ".h2-dir.txt").unlink()
    failed = h2("list")
    assert (failed.returncode, failed.stdout) == (1, "")
    assert failed.stderr.splitlines()[-1].startswith("error: H2_DIR=")


def test_the_presets_load(h2: H2) -> None:
    presets = Path(__file__).parents[2] / "src" / "proctor" / "sandboxes" / "presets"
    for folder in ("haiku", "opus"):
        for role in (presets / folder / "roles").iterdir():
            shutil.copy(role, h2.dir / "roles" / role.name)
            name = role.name.partition(".")[0]
            assert h2("role", "check", name).stdout == f'Role "{name}" is valid.\n'
