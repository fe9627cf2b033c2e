"""An environment for a single command."""

import asyncio
import os
from pathlib import Path

import psutil
import pytest

from environment_factory import environments_left
from proctor.core.environment import EnvironmentSpec, Limits, OneShotCommand
from proctor.core.errors import InfrastructureError, LimitReached, UsageError
from proctor.environments.local import LocalProvider
from waiting import limits


@pytest.fixture
def provider(tmp_path: Path) -> LocalProvider:
    return LocalProvider(environments_dir=tmp_path / "environments")


ECHO = """
import os, sys
first, second, report = map(int, sys.argv[1:])
os.write(report, os.read(first, 1000) + os.read(second, 1000))
print("out"); print("err", file=sys.stderr)
"""


async def test_a_command_reads_its_inputs_and_reports_through_descriptors_of_its_own(provider: LocalProvider) -> None:
    command = OneShotCommand(argv=("python3", "-c", ECHO), inputs=(b"one ", b"two"))
    done = await provider.run_once(EnvironmentSpec(), command)
    assert done.report == b"one two"
    assert sorted(done.exec_result.stdout.split()) == [b"err", b"out"]
    assert done.exec_result.exit_code == 0


async def test_an_input_larger_than_a_pipe_arrives_whole(provider: LocalProvider) -> None:
    copy = "import os, sys, shutil; a, b = map(int, sys.argv[1:]); shutil.copyfileobj(open(a, 'rb'), open(b, 'wb'))"
    data = os.urandom(3_000_000)
    done = await provider.run_once(EnvironmentSpec(), OneShotCommand(argv=("python3", "-c", copy), inputs=(data,)))
    assert done.report == data


async def test_a_command_that_does_not_read_its_input_is_not_waited_for(provider: LocalProvider) -> None:
    done = await provider.run_once(
        EnvironmentSpec(), OneShotCommand(argv=("true",), inputs=(bytes(5_000_000),), timeout=60)
    )
    assert not done.exec_result.timed_out


async def test_the_workspace_is_there_and_stays_as_it_was(provider: LocalProvider, tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    tree.mkdir()
    (tree / "file").write_text("old")
    spec = EnvironmentSpec(workspace=tree)
    done = await provider.run_once(
        spec, OneShotCommand(argv=("sh", "-c", "cat file; echo new >file; cat file; pwd; id -u"))
    )
    assert done.exec_result.stdout == b"oldnew\n/workspace\n1000\n"
    assert (tree / "file").read_text() == "old"
    await provider.close()
    assert not environments_left(tmp_path / "environments")


async def test_it_has_the_environment_of_every_command_and_no_more(provider: LocalProvider) -> None:
    command = OneShotCommand(argv=("sh", "-c", "env"), variables={"MINE": "1"}, cwd="/")
    done = await provider.run_once(EnvironmentSpec(variables={"EXTRA": "2"}), command)
    names = {line.partition("=")[0] for line in done.exec_result.stdout.decode().splitlines()}
    assert names == {"HOME", "LANG", "LOGNAME", "PATH", "PWD", "SHELL", "TZ", "USER", "MINE", "EXTRA"}


async def test_it_holds_no_descriptor_of_ours(provider: LocalProvider) -> None:
    done = await provider.run_once(
        EnvironmentSpec(), OneShotCommand(argv=("sh", "-c", "ls /proc/$$/fd"), inputs=(b"x",))
    )
    own = len(done.exec_result.stdout.split())
    assert own == 5  # the usual three, its input, and where it reports


@pytest.mark.parametrize(
    ("argv", "code"),
    [(("nonesuch",), 127), (("/etc/passwd",), 126), (("sh", "-c", "exit 7"), 7), (("sh", "-c", "kill -9 $$"), 137)],
)
async def test_endings_have_the_codes_of_a_shell(provider: LocalProvider, argv: tuple[str, ...], code: int) -> None:
    assert (await provider.run_once(EnvironmentSpec(), OneShotCommand(argv=argv))).exec_result.exit_code == code


async def test_nothing_outlives_the_command(provider: LocalProvider) -> None:
    mark = f"31{os.getpid()}.5"
    command = f"setsid sleep {mark} & sleep {mark} & nohup sleep {mark} >/dev/null 2>&1 & echo started"
    done = await provider.run_once(EnvironmentSpec(), OneShotCommand(argv=("sh", "-c", command)))
    assert done.exec_result.stdout == b"started\n"
    assert not _running(mark)


async def test_a_timeout_ends_everything(provider: LocalProvider) -> None:
    mark = f"32{os.getpid()}.5"
    argv = ("sh", "-c", f"trap '' TERM INT; setsid sleep {mark} & echo on; sleep {mark}")
    for seconds in limits(0.5):
        done = await provider.run_once(EnvironmentSpec(), OneShotCommand(argv=argv, timeout=seconds))
        assert done.exec_result.timed_out
        assert not _running(mark)
        if done.exec_result.stdout:
            break
    assert done.exec_result.stdout == b"on\n"


async def test_a_caller_that_is_cancelled_ends_everything(provider: LocalProvider, tmp_path: Path) -> None:
    mark = f"33{os.getpid()}.5"
    task = asyncio.create_task(provider.run_once(EnvironmentSpec(), OneShotCommand(argv=("sleep", mark))))
    while not _running(mark):
        await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not _running(mark)
    await provider.close()
    assert not environments_left(tmp_path / "environments")


async def test_a_environments_limits_hold(provider: LocalProvider) -> None:
    spec = EnvironmentSpec(limits=Limits(memory_mb=200, processes=20, disk_mb=20))
    grab = "x = bytearray(400_000_000); print('had it')"
    done = await provider.run_once(spec, OneShotCommand(argv=("python3", "-c", grab)))
    assert done.exec_result.exit_code != 0
    forks = "for i in $(seq 60); do sleep 300 & done; echo all"
    done = await provider.run_once(spec, OneShotCommand(argv=("sh", "-c", forks)))
    assert b"all" not in done.exec_result.stdout
    fill = "dd if=/dev/zero of=/tmp/big bs=1M count=50 2>/dev/null; echo $?"
    done = await provider.run_once(spec, OneShotCommand(argv=("sh", "-c", fill)))
    assert done.exec_result.stdout != b"0\n"


async def test_the_environments_clock_ends_it(provider: LocalProvider) -> None:
    with pytest.raises(LimitReached, match="wall clock"):
        await provider.run_once(EnvironmentSpec(limits=Limits(wall_seconds=0.3)), OneShotCommand(argv=("sleep", "60")))


async def test_output_beyond_the_cap_is_left_out(provider: LocalProvider) -> None:
    noise = "import sys; r = int(sys.argv[1]); print('x' * 10**6); open(r, 'w').write('y' * 10**6)"
    command = OneShotCommand(argv=("python3", "-c", noise), output_bytes=1000, report_bytes=500)
    done = await provider.run_once(EnvironmentSpec(), command)
    assert done.exec_result.truncated
    assert done.report_truncated
    assert len(done.exec_result.stdout) < 3000
    assert len(done.report) < 1000


async def test_an_environment_that_cannot_be_made_is_no_result(provider: LocalProvider, tmp_path: Path) -> None:
    with pytest.raises(UsageError):
        await provider.run_once(EnvironmentSpec(workspace=tmp_path / "absent"), OneShotCommand(argv=("true",)))
    with pytest.raises(InfrastructureError, match="could not make the environment"):
        await provider.run_once(EnvironmentSpec(workdir="/proc2/x/y"), OneShotCommand(argv=("true",), cwd="/absent"))
    await provider.close()
    assert not environments_left(tmp_path / "environments")


async def test_where_overlay_is_not_to_be_had_the_tree_is_copied(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    tree.mkdir()
    (tree / "file").write_text("text")
    provider = LocalProvider(environments_dir=tmp_path / "environments", overlay=False)
    done = await provider.run_once(EnvironmentSpec(workspace=tree), OneShotCommand(argv=("sh", "-c", "cat file")))
    assert done.exec_result.stdout == b"text"


def test_only_environments_with_walls_run_one_shot_commands() -> None:
    walled, plain = LocalProvider(), LocalProvider(isolation=False)
    assert walled.supports_run_once
    assert not plain.supports_run_once


def _running(mark: str) -> list[int]:
    return [process.pid for process in psutil.process_iter(["cmdline"]) if mark in (process.info["cmdline"] or [])]
