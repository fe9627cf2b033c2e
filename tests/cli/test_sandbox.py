import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from documents import checked
from proctor.sandboxes import Sandboxes
from proctor.sandboxes.staging import StagingArea, remove_socket_links
from proctor.sandboxes.stop import stop_everything
from waiting import PATIENCE

STANDINS = Path(__file__).parents[1] / "standins"
PYTHON = [sys.executable, "-m", "proctor", "sandbox"]


class Proctor:
    """The command line with a home, a root and an environment of its own."""

    def __init__(self, folder: Path) -> None:
        self.home = folder / "user"
        self.home.mkdir()
        self.root = self.home / ".h2" / "sandboxes"
        self.environ = {
            "PATH": f"{STANDINS}:{Path(sys.executable).parent}:/usr/bin:/bin",
            "HOME": str(self.home),
        }

    def __call__(self, *arguments: str, stdin: str = "", **variables: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [*PYTHON, *arguments],
            capture_output=True,
            text=True,
            check=False,
            input=stdin,
            env={**self.environ, **variables},
            cwd=self.home,
        )

    def names(self) -> list[str]:
        return [row["name"] for row in checked(self("list", "--json").stdout)]


@pytest.fixture
def proctor(tmp_path: Path) -> Iterator[Proctor]:
    made = Proctor(tmp_path)
    yield made
    for home in made.root.glob("*"):
        stop_everything(home)
        remove_socket_links(home)


def test_create_and_list(proctor: Proctor) -> None:
    created = proctor("create", "b1", "--preset", "opus")
    assert created.stdout == f"created b1: {proctor.root}/b1\n"
    assert created.stderr == ""
    heading, row = proctor("list").stdout.splitlines()
    assert heading.split() == ["NAME", "PRESET", "AUTH", "AGENTS", "CREATED"]
    assert row.split()[:4] == ["b1", "opus", "none", "0"]
    *moment, zone = row.split()[4:]
    time.strptime(" ".join(moment), "%Y-%m-%d %H:%M")
    assert zone == "UTC" or re.fullmatch(r"[+-]\d\d:\d\d", zone)


def test_list_as_json(proctor: Proctor) -> None:
    assert proctor("list", "--json").stdout == "[]\n"
    proctor("create", "b1", "--preset", "opus", "--model", "sonnet")
    (row,) = checked(proctor("list", "--json").stdout)
    assert row.pop("created").endswith("Z")
    assert row == {
        "name": "b1",
        "preset": "opus",
        "model": "sonnet",
        "auth": "none",
        "agents": 0,
        "home": f"{proctor.root}/b1",
        "schema_version": "proctor.sandbox_row@1",
    }


def test_count_makes_a_series_of_each_name(proctor: Proctor) -> None:
    assert proctor("create", "bench", "--count", "10").returncode == 0
    assert proctor.names() == [f"bench-{i}" for i in range(1, 11)]
    assert proctor("create", "a", "b", "--count", "2").returncode == 0
    assert proctor.names()[:4] == ["a-1", "a-2", "b-1", "b-2"]
    for wrong in ("0", "-1", "x", "1001"):
        assert proctor("create", "c", "--count", wrong).returncode == 2


def test_credentials_come_from_h2s_own_directory_or_from_where_it_is_said(proctor: Proctor, tmp_path: Path) -> None:
    for folder in (proctor.home / ".h2/claude-config/default", tmp_path / "other"):
        folder.mkdir(parents=True)
        (folder / ".credentials.json").write_text(json.dumps({"claudeAiOauth": {"accessToken": folder.name}}))
    proctor("create", "b1")
    proctor("create", "b2", "--auth-from", str(tmp_path / "other"))
    for name, source in (("b1", "default"), ("b2", "other")):
        file = proctor.root / name / "claude-config/default/.credentials.json"
        assert json.loads(file.read_text())["claudeAiOauth"]["accessToken"] == source
        assert file.stat().st_mode & 0o777 == 0o600
    assert "valid" in proctor("list").stdout


@pytest.mark.parametrize("named", ["/nowhere", "", "~nobody-at-all/x", "x" * 5000])
def test_credentials_from_a_directory_that_is_none_are_refused(proctor: Proctor, named: str) -> None:
    result = proctor("create", "b1", "--auth-from", named)
    assert result.returncode == 2
    assert result.stderr.count("\n") == 1
    assert not proctor.root.exists()


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["create"],
        ["create", ""],
        ["create", "../x"],
        ["create", "a/b"],
        ["create", "x" * 200],
        ["create", "ok", "../x"],
        ["create", "ok", "ok"],
        ["create", "ok", "--preset", "nope"],
        ["create", "ok", "--preset", ""],
        ["create", "ok", "--model", "opus"],
        ["reset", "nope"],
        ["reset", "../x"],
        ["destroy", "nope"],
        ["destroy", "/"],
        ["destroy", ".."],
        ["shell", "nope"],
        ["shell", ""],
        ["exec", "nope", "--", "true"],
        ["exec", "../x", "--", "true"],
        ["nonsense"],
    ],
)
def test_wrong_usage_is_one_sentence_exit_2_and_nothing_made(proctor: Proctor, arguments: list[str]) -> None:
    result = proctor(*arguments)
    assert result.returncode == 2
    assert result.stderr.startswith("proctor: ")
    assert result.stderr.count("\n") == 1
    assert result.stdout == ""
    assert list(proctor.home.rglob("*")) == []


def test_several_names_are_checked_before_any_is_touched(proctor: Proctor) -> None:
    proctor("create", "b1")
    assert proctor("create", "b0", "b1").returncode == 2
    assert proctor.names() == ["b1"]
    assert proctor("destroy", "b1", "nope").returncode == 2
    assert proctor.names() == ["b1"]
    assert proctor("reset", "b1", "b1").returncode == 2


def test_a_failure_for_one_sandbox_does_not_stop_the_others(proctor: Proctor) -> None:
    proctor("create", "b1", "b2", "b3")
    # Its lock cannot be taken.
    (proctor.root / ".proctor" / "locks" / "b2").unlink()
    (proctor.root / ".proctor" / "locks" / "b2").symlink_to("/dev/null")
    result = proctor("destroy", "b1", "b2", "b3")
    assert result.stdout == "destroyed b1\ndestroyed b3\n"
    assert "b2" in result.stderr
    assert result.returncode == 12
    assert proctor.names() == ["b2"]


def test_all_sandboxes_are_created_even_with_a_closed_pipe(proctor: Proctor) -> None:
    line = f"{' '.join(PYTHON)} create b1 b2 b3 | true"
    result = subprocess.run(["bash", "-c", line], capture_output=True, text=True, check=True, env=proctor.environ)
    assert result.stderr == ""
    assert proctor.names() == ["b1", "b2", "b3"]


def test_reset_and_destroy(proctor: Proctor) -> None:
    proctor("create", "b1", "b2", "--preset", "opus")
    assert proctor("reset", "b1", "--preset", "haiku").stdout == "reset b1: preset haiku\n"
    assert [row["preset"] for row in checked(proctor("list", "--json").stdout)] == ["haiku", "opus"]
    assert proctor("destroy", "b1", "b2").stdout == "destroyed b1\ndestroyed b2\n"
    assert proctor.names() == []


def test_a_preset_of_ones_own_by_name_and_by_path(proctor: Proctor, tmp_path: Path) -> None:
    for folder in (proctor.home / ".h2" / "presets" / "mine", proctor.home / "here"):
        folder.mkdir(parents=True)
        (folder / "preset.toml").write_text('extends = "hooks"')
        (folder / "who").write_text(folder.name)
    assert proctor("create", "b1", "--preset", "mine").returncode == 0
    assert proctor("create", "b2", "--preset", "./here").returncode == 0
    assert [(proctor.root / name / "who").read_text() for name in ("b1", "b2")] == ["mine", "here"]
    assert "say ./here" in proctor("create", "b3", "--preset", "here").stderr
    assert [row["preset"] for row in checked(proctor("list", "--json").stdout)] == ["mine", "here"]


def test_exec_passes_everything_through(proctor: Proctor) -> None:
    proctor("create", "b1")
    result = proctor("exec", "b1", "--", "sh", "-c", "cat; echo err >&2; exit 3", stdin="in")
    assert (result.stdout, result.stderr, result.returncode) == ("in", "err\n", 3)
    assert proctor("exec", "b1", "--", "echo", "--", "--help", "-x").stdout == "-- --help -x\n"
    assert proctor("exec", "b1", "printf", "%s", "--json").stdout == "--json"
    assert proctor("exec", "b1", "--", "sh", "-c", "kill -TERM $$").returncode == -signal.SIGTERM
    assert proctor("exec", "b1", "--", "h2", "version").stdout.startswith("v0.3")


def test_exec_has_the_environment_of_the_sandbox(proctor: Proctor) -> None:
    proctor("create", "b1")
    outer = {"H2_POD": "x", "H2_ACTOR": "x", "OTEL_X": "x", "CLAUDECODE": "1", "H2_DIR": "/outer", "KEPT": "yes"}
    lines = proctor("exec", "b1", "--", "env", **outer).stdout.splitlines()
    variables = dict(line.split("=", 1) for line in lines)
    assert variables["H2_DIR"] == f"{proctor.root}/b1"
    assert variables["H2_ROOT_DIR"] == f"{proctor.root}/b1/h2-root"
    assert variables["CLAUDE_CONFIG_DIR"] == f"{proctor.root}/b1/claude-config/default"
    assert variables["NO_PROXY"] == "127.0.0.1,localhost"
    assert variables["KEPT"] == "yes"
    assert not {"H2_POD", "H2_ACTOR", "OTEL_X", "CLAUDECODE"} & set(variables)


def test_exec_of_what_cannot_be_run(proctor: Proctor) -> None:
    proctor("create", "b1")
    assert proctor("exec", "b1").returncode == 2
    assert proctor("exec", "b1", "--").returncode == 2
    missing = proctor("exec", "b1", "--", "no-such-command")
    assert (missing.returncode, missing.stderr) == (127, "proctor: no-such-command: no such command\n")
    denied = proctor("exec", "b1", "--", "/etc/passwd")
    assert (denied.returncode, denied.stderr) == (126, "proctor: /etc/passwd: cannot be run: Permission denied\n")


def test_exec_ends_quietly_when_its_reader_goes(proctor: Proctor) -> None:
    proctor("create", "b1")
    line = f"{' '.join(PYTHON)} exec b1 -- yes | head -1; echo ${{PIPESTATUS[0]}}"
    result = subprocess.run(["bash", "-c", line], capture_output=True, text=True, check=True, env=proctor.environ)
    assert (result.stdout, result.stderr) == (f"y\n{128 + signal.SIGPIPE}\n", "")


def test_a_signal_reaches_the_command_itself(proctor: Proctor) -> None:
    proctor("create", "b1")
    script = "trap 'echo got it; exit 5' INT; echo ready; while :; do sleep 0.05; done"
    running = subprocess.Popen(
        [*PYTHON, "exec", "b1", "--", "sh", "-c", script],
        env=proctor.environ,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert running.stdout
    assert running.stdout.readline() == "ready\n"
    running.send_signal(signal.SIGINT)
    assert running.communicate(timeout=PATIENCE)[0] == "got it\n"
    assert running.returncode == 5


def test_a_pod_is_launched_listed_and_stopped(proctor: Proctor, tmp_path: Path) -> None:
    proctor("create", "b1", "--preset", "opus")
    launched = proctor("exec", "b1", "--", "h2", "pod", "launch", "benchmark", "--var", f"working_dir={tmp_path}")
    assert launched.stderr.endswith('Pod "benchmark" launched with 4 agents\n')
    assert proctor("list").stdout.splitlines()[1].split()[:4] == ["b1", "opus", "none", "4"]
    assert proctor("reset", "b1").returncode == 0
    assert proctor("list").stdout.splitlines()[1].split()[:4] == ["b1", "opus", "none", "0"]


def test_a_reset_ends_what_exec_had_started(proctor: Proctor) -> None:
    proctor("create", "b1")
    command = [*PYTHON, "exec", "b1", "--", "sh", "-c", "echo ready; exec sleep 60"]
    running = subprocess.Popen(command, env=proctor.environ, stdout=subprocess.PIPE, text=True)
    assert running.stdout
    assert running.stdout.readline() == "ready\n"
    assert proctor("reset", "b1").returncode == 0
    assert running.wait(PATIENCE) == -signal.SIGTERM
    running.stdout.close()


def test_a_sandbox_is_not_reset_from_its_own_shell(proctor: Proctor) -> None:
    proctor("create", "b1")
    result = proctor("exec", "b1", "--", *PYTHON, "reset", "b1")
    assert result.returncode == 2
    assert result.stderr.startswith("proctor: b1: this command itself runs inside the sandbox")
    assert proctor("exec", "b1", "--", *PYTHON, "list").returncode == 0


def test_shell_reads_commands_where_there_is_no_terminal(proctor: Proctor) -> None:
    proctor("create", "b1")
    result = proctor("shell", "b1", stdin="echo $H2_DIR; exit 4", SHELL="/bin/sh")
    assert (result.stdout, result.returncode) == (f"{proctor.root}/b1\n", 4)
    assert result.stderr == f"sandbox b1 at {proctor.root}/b1; `exit` leaves it\n"
    assert proctor("shell", "b1", SHELL="/no/such/shell").returncode == 127


def test_a_command_that_waits_for_a_lock_says_so(proctor: Proctor) -> None:
    proctor("create", "b1")
    with StagingArea(proctor.root).lock("b1", wait_seconds=0):
        waiting = subprocess.Popen([*PYTHON, "reset", "b1"], env=proctor.environ, stderr=subprocess.PIPE, text=True)
        assert waiting.stderr
        assert waiting.stderr.readline() == "waiting for another command on sandbox b1 to end\n"
    assert waiting.wait(PATIENCE) == 0
    waiting.stderr.close()


@pytest.mark.parametrize("command", ["create", "reset", "destroy"])
def test_commands_killed_at_some_point_are_finished_by_the_next(proctor: Proctor, command: str) -> None:
    source = proctor.home / ".h2/claude-config/default"
    source.mkdir(parents=True)
    (source / ".credentials.json").write_text('{"claudeAiOauth": {"accessToken": "dummy"}}')
    for delay in (0.06, 0.08, 0.1, 0.12, 0.14):
        if command != "create" and "b1" not in proctor.names():
            proctor("create", "b1")
        running = subprocess.Popen([*PYTHON, command, "b1"], env=proctor.environ, stdout=subprocess.DEVNULL)
        time.sleep(delay)
        running.kill()
        running.wait()
        listed = checked(proctor("list", "--json").stdout)
        assert all((row["name"], row["auth"]) == ("b1", "valid") for row in listed)
        assert command != "reset" or listed
        assert StagingArea(proctor.root).unfinished() == set()
        if command == "create" and listed:
            assert proctor("destroy", "b1").returncode == 0


def test_the_root_is_where_the_environment_says(proctor: Proctor, tmp_path: Path) -> None:
    proctor("create", "b1", PROCTOR_SANDBOXES=str(tmp_path / "elsewhere"))
    assert [each.name for each in Sandboxes(tmp_path / "elsewhere").list()] == ["b1"]
    assert not proctor.root.exists()
    long = proctor("list", PROCTOR_SANDBOXES="/" + "x" * 300)
    assert long.returncode == 2
    assert long.stderr.count("\n") == 1


def test_an_interrupt_ends_with_130(proctor: Proctor) -> None:
    proctor("create", "b1")
    with StagingArea(proctor.root).lock("b1", wait_seconds=0):
        waiting = subprocess.Popen([*PYTHON, "reset", "b1"], env=proctor.environ, stderr=subprocess.PIPE, text=True)
        assert waiting.stderr
        waiting.stderr.readline()
        waiting.send_signal(signal.SIGINT)
        assert waiting.communicate(timeout=PATIENCE)[1].strip() == "proctor: interrupted"
        assert waiting.returncode == 130
    assert os.path.lexists(proctor.root / "b1")
