import asyncio
import errno
from pathlib import Path
from typing import Any

import psutil
import pytest

from plain_environment import PlainEnvironment
from proctor.agents.supervisor import ExitReason, ProcessExit, Supervisor
from proctor.core.environment import ExecResult
from proctor.core.errors import LimitReached, RetryableError
from waiting import PATIENCE, eventually, limits

START = """printf '{"pid":%s}\\n' "$$"\n"""
HEEDLESS = "trap '' INT; echo up; exec sleep 60"


def alive(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


class Lines:
    """Keeps the lines; is idle after the line `rest`."""

    def __init__(self) -> None:
        self.lines: list[bytes] = []
        self.was_interrupted = False

    @property
    def idle(self) -> bool:
        return b"rest" in self.lines[-1:]

    def handle_line(self, line: bytes) -> None:
        self.lines.append(line)

    def on_interrupt(self) -> None:
        self.was_interrupted = True


class Trial:
    def __init__(self, folder: Path) -> None:
        self.environment = PlainEnvironment(folder)
        self.logs = folder / "logs"
        self.lines = Lines()

    def supervisor(self, *, grace: float = 30, linger: float = 60) -> Supervisor:
        return Supervisor(
            self.environment, self.logs, self.lines, stdout="out.log", grace_seconds=grace, linger_seconds=linger
        )

    async def run(self, script: str, *, wall: float | None = None, **more: float) -> ProcessExit:
        supervisor = self.supervisor(**more)
        return await supervisor.run(START + script, [], stdin=b"", variables={}, wall_seconds=wall)

    async def run_until_it_speaks(self, script: str, *, grace: float = 30) -> ProcessExit:
        """Cancel it at its first line."""
        supervisor = self.supervisor(grace=grace)
        running = asyncio.create_task(supervisor.run(START + script, [], stdin=b"", variables={}, wall_seconds=None))
        await eventually(lambda: self.lines.lines or running.done(), "the first line")
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert supervisor.process_exit is not None
        return supervisor.process_exit


@pytest.fixture
def trial(tmp_path: Path) -> Trial:
    return Trial(tmp_path)


async def test_lines_are_passed_on_and_kept_without_our_own(trial: Trial) -> None:
    ended = await trial.run("printf 'one\\ntwo\\n\\nthree'; echo oops >&2; exit 3")
    assert trial.lines.lines == [b"one", b"two", b"", b"three"]
    assert (trial.logs / "out.log").read_bytes() == b"one\ntwo\n\nthree"
    assert (trial.logs / "stderr.log").read_bytes() == b"oops\n"
    assert (ended.reason, ended.exit_code, ended.stderr) == (ExitReason.EXITED, 3, "oops\n")
    assert ended.summary == "it exited with code 3"


async def test_lines_that_come_in_pieces_are_whole(trial: Trial) -> None:
    await trial.run("for i in 1 2 3 4 5; do printf 'piece '; sleep 0.05; done; echo; printf 'last'; sleep 0.1")
    assert trial.lines.lines == [b"piece piece piece piece piece ", b"last"]


async def test_an_output_that_does_not_begin_with_our_line_is_the_followers(trial: Trial) -> None:
    ended = await trial.supervisor().run("echo nonsense; exit 1", [], stdin=b"", variables={}, wall_seconds=None)
    assert trial.lines.lines == [b"nonsense"]
    assert (ended.exit_code, ended.fault) == (1, "")


async def test_a_fault_is_reported(trial: Trial) -> None:
    script = """echo why >&2; printf '{"fault":"no_luck"}\\n'; exit 1"""
    ended = await trial.supervisor().run(script, [], stdin=b"", variables={}, wall_seconds=None)
    assert (ended.fault, ended.stderr) == ("no_luck", "why\n")


async def test_an_environment_without_a_shell_is_a_fault(trial: Trial) -> None:
    trial.environment.variables["PATH"] = "/nowhere"
    assert (await trial.run("true")).fault == "no_shell"


async def test_its_time_is_limited(trial: Trial) -> None:
    for seconds in limits(0.5):
        ended = await trial.run("echo up; exec sleep 600", wall=seconds)
        assert ended.reason is ExitReason.WALL_CLOCK
        assert seconds <= ended.seconds < seconds + 30
        if trial.lines.lines:
            break
    assert (trial.lines.lines, ended.exit_code) == ([b"up"], 130)


async def test_a_program_that_heeds_an_interrupt_may_still_speak(trial: Trial) -> None:
    polite = "import signal, sys, time; signal.signal(signal.SIGINT, lambda *_: sys.exit(print('bye') or 4))"
    ended = await trial.run_until_it_speaks(f'exec python3 -c "{polite}; print(1, flush=True); time.sleep(60)"')
    assert (ended.reason, ended.exit_code) == (ExitReason.CANCELLED, 4)
    assert trial.lines.lines == [b"1", b"bye"]
    assert trial.lines.was_interrupted


async def test_a_program_that_does_not_is_killed(trial: Trial) -> None:
    ended = await trial.run_until_it_speaks(HEEDLESS, grace=0.3)
    assert (ended.reason, ended.exit_code) == (ExitReason.CANCELLED, 137)


async def test_children_in_sessions_of_their_own_die_with_it(trial: Trial) -> None:
    script = "trap '' INT; setsid sh -c 'sleep 61 & echo $$ $!; wait' & wait"
    await trial.run_until_it_speaks(script, grace=0.3)
    children = [int(word) for word in trial.lines.lines[0].split()]
    await eventually(lambda: not any(alive(child) for child in children), "their end")


async def test_children_die_also_where_the_program_heeds_the_interrupt_and_leaves_them(trial: Trial) -> None:
    children = """trap "" INT; sleep 61 >/dev/null 2>&1 & echo $$ $!; exec >/dev/null 2>&1; wait"""
    script = f"trap 'echo bye; exit 0' INT; setsid sh -c '{children}' & wait"
    ended = await trial.run_until_it_speaks(script)
    pids = [int(pid) for pid in trial.lines.lines[0].split()]
    assert (trial.lines.lines[1], ended.exit_code) == (b"bye", 0)
    await eventually(lambda: not any(map(alive, pids)), "the end of its children")


async def test_a_process_in_its_own_session_is_not_killed(trial: Trial) -> None:
    script = "setsid sh -c 'sleep 61 >/dev/null 2>&1 & echo $!'; trap '' INT; sleep 62 & wait"
    await trial.run_until_it_speaks(script, grace=0.3)
    server = psutil.Process(int(trial.lines.lines[0]))
    assert alive(server.pid)
    server.kill()


async def test_one_that_is_done_is_not_waited_for_forever(trial: Trial) -> None:
    ended = await trial.run("echo rest; exec sleep 600", linger=0.3)
    assert ended.reason is ExitReason.LINGERED
    assert ended.seconds < PATIENCE


async def test_one_that_goes_on_after_its_rest_is_waited_for(trial: Trial) -> None:
    ended = await trial.run("echo rest; sleep 0.2; echo on; sleep 2.5; echo rest", linger=2)
    assert (ended.reason, trial.lines.lines) == (ExitReason.EXITED, [b"rest", b"on", b"rest"])


async def test_cancelling_twice_does_not_wait(trial: Trial) -> None:
    supervisor = trial.supervisor(grace=30)
    script = START + HEEDLESS
    running = asyncio.create_task(supervisor.run(script, [], stdin=b"", variables={}, wall_seconds=None))
    await eventually(lambda: trial.lines.lines, "the first line")
    running.cancel()
    await asyncio.sleep(0.2)
    running.cancel()
    async with asyncio.timeout(20):
        with pytest.raises(asyncio.CancelledError):
            await running


async def test_a_broken_environment_is_reported_as_such(trial: Trial, tmp_path: Path) -> None:
    class Broken(PlainEnvironment):
        error: Exception = RetryableError("the engine is gone")

        async def exec(self, *words: Any, **more: Any) -> ExecResult:
            raise self.error

    trial.environment = Broken(tmp_path)
    with pytest.raises(RetryableError):
        await trial.run("true")
    trial.environment.error = LimitReached("wall clock of the environment", value=5, limit=5)
    ended = await trial.run("true")
    assert (ended.reason, ended.limit) == (
        ExitReason.ENVIRONMENT_LIMIT,
        "wall clock of the environment limit reached (5 of 5)",
    )


async def test_a_disk_that_is_full_ends_it(trial: Trial) -> None:
    trial.logs.mkdir()
    (trial.logs / "out.log").symlink_to("/dev/full")
    if not Path("/dev/full").exists():
        pytest.skip("no /dev/full here")
    async with asyncio.timeout(PATIENCE):
        with pytest.raises(OSError, match="space") as caught:
            await trial.run("while true; do echo more; sleep 0.1; done")
    assert caught.value.errno == errno.ENOSPC


async def test_a_line_without_end_is_cut_and_the_next_one_read(trial: Trial, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("proctor.agents.supervisor.LONGEST_LINE", 1000)
    await trial.run("head -c 300000 /dev/zero | tr '\\0' x; echo; echo after")
    assert [len(line) for line in trial.lines.lines] == [1000, 5]
    assert (trial.logs / "out.log").stat().st_size == 300_007


async def test_output_after_the_end_is_dropped(trial: Trial, tmp_path: Path) -> None:
    class Chatty(PlainEnvironment):
        async def exec(self, *words: Any, **more: Any) -> ExecResult:
            self.outputs = [more["on_stdout"], more["on_stderr"]]
            return await super().exec(*words, **more)

    trial.environment = Chatty(tmp_path)
    ended = await trial.run("echo now")
    for output in trial.environment.outputs:
        output(b"late\n")
    assert trial.lines.lines == [b"now"]
    assert (trial.logs / "out.log").read_bytes() == b"now\n"
    assert ended.stderr == ""
