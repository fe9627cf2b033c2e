"""What a run shows while it goes on: live on a terminal, plain lines elsewhere, nothing when told to be quiet."""

import asyncio
import os
import pty
import re
import select
import struct
import termios
from collections.abc import Iterator
from contextlib import contextmanager
from fcntl import ioctl

from image_registry import Registry, shell_layer

from cli_world import CliWorld, access, toy_run
from docker_image import need_docker
from proctor.environments.docker_engine import connect, disconnect
from suite_world import make_instance, make_suite
from toy_provider import failing, toy_provider


class Terminal:
    """A real one, as far as a program can tell: what is written on its other side is read here."""

    def __init__(self, ours: int, name: str) -> None:
        self._ours = ours
        self.name = name
        self.seen = b""

    def read(self) -> str:
        while select.select([self._ours], [], [], 0)[0]:
            try:
                data = os.read(self._ours, 65536)
            except OSError:  # nobody has it open any more
                break
            if not data:
                break
            self.seen += data
        return self.seen.decode(errors="replace")


@contextmanager
def terminal(rows: int = 12, columns: int = 150) -> Iterator[Terminal]:
    ours, theirs = pty.openpty()
    ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
    try:
        yield Terminal(ours, os.ttyname(theirs))
    finally:
        os.close(theirs)
        os.close(ours)


def plain(text: str) -> str:
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text)


async def test_a_terminal_shows_how_far_the_run_is_and_what_each_agent_is_doing(cli_world: CliWorld) -> None:
    async with toy_provider(delay=0.4) as provider:
        with terminal() as screen:
            run = toy_run(provider, "--concurrency", 2, "--max-cost", 1)
            job = cli_world.start(*run, **access(provider), TERM="xterm", terminal=screen.name)
            while job.poll() is None:
                screen.read()
                await asyncio.sleep(0.02)
            shown = screen.read()
            done = await job.wait()
    assert done.code == 0, shown
    text = plain(shown)
    assert re.search(
        r"toy/run-001  ([12])/3 done, [12] running, \1 resolved, 0 errors, "
        r"\$0\.0[1-9]\d\d of \$1\.00, [\d,]+ tokens/min, \d+ s left",
        text,
    ), text[-3000:]
    # The toy agent prints what its model says, and that is what it is doing.
    assert re.search(r"^  toy-0001  step 0\s*$", text, re.MULTILINE)
    # The cursor was hidden and is back, the table is gone, and the result is where results go.
    assert shown.rindex("\x1b[?25h") > shown.rindex("\x1b[?25l")
    assert done.stdout.startswith("toy/run-001: 3 of 3 graded trials resolved")


async def test_a_terminal_keeps_outcomes_and_retries_with_their_reasons_and_ends_with_the_most_frequent_error(
    cli_world: CliWorld,
) -> None:
    async with toy_provider(delay=0.1) as provider:
        provider.overrides["toy-0002"] = [failing(418, "teapot_error")] * 2
        with terminal(rows=20) as screen:
            job = cli_world.start(
                *toy_run(provider, "--retries", 1), **access(provider), TERM="xterm", terminal=screen.name
            )
            while job.poll() is None:
                screen.read()
                await asyncio.sleep(0.02)
            shown = screen.read()
    text = plain(shown)
    # What was printed last is still on the screen: nothing of the table comes after it.
    lines = [line.strip() for line in text[text.rindex("[3/3]") :].replace("\r", "\n").splitlines() if line.strip()]
    assert any(line.startswith("most frequent error, 1 of 1 (toy-0002): provider_error: ") for line in lines), lines
    assert lines[-1].endswith("retry later"), lines
    assert re.search(r"\[1/3\] toy-0001 resolved \(solved\)", text)
    assert re.search(r"retry in [23] s: toy-0002: provider_error: \S+", text), text
    assert re.search(r"\[\d/3\] toy-0002 error \(provider_error\): \S+", text)
    assert re.search(r"━+.*33%  \d+ s left", text), "a bar, with the time that is left"


async def test_a_terminal_that_cannot_redraw_shows_lines(cli_world: CliWorld) -> None:
    async with toy_provider() as provider:
        with terminal() as screen:
            job = cli_world.start(*toy_run(provider), **access(provider), TERM="dumb", terminal=screen.name)
            while job.poll() is None:
                screen.read()
                await asyncio.sleep(0.02)
            shown = screen.read()
    assert shown.replace("\r\n", "\n") == "".join(f"[{n}/3] toy-000{n} resolved (solved)\n" for n in (1, 2, 3))


async def test_tasks_that_cannot_be_run_here_are_told_once_and_not_asked_about(cli_world: CliWorld) -> None:
    for number in range(5):
        make_instance(cli_world.folder, f"odd{number}", requires=["no-such-program"])
    make_instance(cli_world.folder, "fine")
    suite = make_suite(cli_world.folder, "fine", *(f"odd{number}" for number in range(5)))
    run = ("bench", "run", "--suite", suite, "--agent", "oracle", "--controls", 0)
    done = await cli_world.run(*run)
    assert done.code == 0, done.stderr
    assert done.stdout.startswith("mine/run-001: 1 of 1 graded trials resolved, 0 errors, 5 skipped")
    first, second, third = done.stderr.splitlines()
    assert first == (
        "skipped, cannot be run here: 5 tasks (odd0, …): it needs no-such-program, which the environment does not "
        "have; install no-such-program where environments see it, or choose an image that has it"
    )
    assert "fine resolved (solved)" in second
    assert third.startswith("5 trials cannot be run on this machine (`proctor bench show mine/run-001` lists them")
    shown = await cli_world.run("bench", "show", "mine/run-001")
    assert shown.stdout.count("it needs no-such-program") == 1


async def test_more_agents_than_lines_do_not_spoil_the_screen(cli_world: CliWorld) -> None:
    async with toy_provider(delay=0.5) as provider:
        with terminal(rows=8, columns=60) as screen:
            run = toy_run(provider, "--concurrency", 9)
            job = cli_world.start(*run, **access(provider), TERM="xterm", TOY_TASKS=9, terminal=screen.name)
            while job.poll() is None:
                screen.read()
                await asyncio.sleep(0.02)
            shown = plain(screen.read())
    assert re.search(r"and \d more", shown)
    lines = shown.replace("\r", "\n").splitlines()
    assert max(map(len, lines)) <= 60
    # What the run costs, and how long it will take, is worth a second line.
    assert any("tokens/min" in line for line in lines)
    assert any(line.strip().endswith(("no estimate yet", "left")) for line in lines), lines


async def test_what_an_agent_prints_cannot_act_on_the_terminal(cli_world: CliWorld) -> None:
    evil = ("--agent", "command", "--agent-command", r"""sh -c 'printf "\033]0;owned\007\033[2Jhello\n"; sleep 3'""")
    with terminal() as screen:
        job = cli_world.start(
            *("bench", "run", "toy", *evil, "--isolation", "off", "--limit", 1), TERM="xterm", terminal=screen.name
        )
        while job.poll() is None:
            screen.read()
            await asyncio.sleep(0.02)
        shown = screen.read()
    assert "hello" in shown
    assert "\x1b]0;" not in shown
    assert "\x1b[2J" not in shown


async def test_elsewhere_every_answer_that_ends_is_a_line(cli_world: CliWorld) -> None:
    async with toy_provider() as provider:
        done = await cli_world.run(*toy_run(provider), **access(provider))
    assert done.stderr == "".join(f"[{n}/3] toy-000{n} resolved (solved)\n" for n in (1, 2, 3))


async def test_quiet_is_quiet(cli_world: CliWorld) -> None:
    async with toy_provider() as provider:
        done = await cli_world.run(*toy_run(provider, "--quiet"), **access(provider))
    assert done.stderr == ""
    assert done.stdout.count("\n") == 1


async def test_a_resumed_run_counts_what_was_done_and_paid_before(cli_world: CliWorld) -> None:
    async with toy_provider(delay=0.3) as provider:
        env = {**access(provider), "TERM": "xterm", "TOY_TASKS": 2}
        run = toy_run(provider, "--max-cost", 0.012)
        assert (await cli_world.run(*run, **env)).code == 12
        with terminal() as screen:
            job = cli_world.start("bench", "resume", "run-001", "--max-cost", 5, **env, terminal=screen.name)
            while job.poll() is None:
                screen.read()
                await asyncio.sleep(0.02)
            text = plain(screen.read())
    # The first task's last answer used the limit up, and it needed no more.
    assert "1/2 done, 0 running, 1 resolved, 0 errors, $0.0135 of $5.00" in text, text


async def test_a_terminal_shows_all_runs_of_a_sweep_at_once(cli_world: CliWorld) -> None:
    (cli_world.folder / "two.toml").write_text(
        'benchmark = "toy"\nisolation = false\nconcurrency = 2\nagent = "command"\n[grid]\n'
        "command = [\"sh -c 'sleep 1'\", \"sh -c 'echo right >answer.txt; sleep 1'\"]\n"
    )
    with terminal() as screen:
        job = cli_world.start("bench", "sweep", "two.toml", TERM="xterm", terminal=screen.name)
        while job.poll() is None:
            screen.read()
            await asyncio.sleep(0.02)
        done = await job.wait()
        shown = plain(screen.read())
    assert done.code == 0, shown
    assert "command=sh -c 'sleep 1'  0/3 done" in shown
    assert "command=sh -c 'echo right >answer.txt; sleep 1'  0/3 done" in shown
    assert "command=sh -c 'sleep 1': toy-0001" in shown


async def test_images_that_are_pulled_are_told_also_before_the_first_task(cli_world: CliWorld) -> None:
    need_docker()
    async with Registry() as registry:
        image = registry.add("environment", [shell_layer()])
        run = ("bench", "run", "toy", "--agent", "nop", "--runner", "docker", "--docker-image", image)
        try:
            told = await cli_world.run(*run, TOY_TASKS=1)
        finally:
            client = connect()
            await client.images.delete(image, force=True)
            await disconnect(client)
    first, second, *_ = told.stderr.splitlines()
    assert first == f"pulling {image}", told
    assert re.fullmatch(rf"pulled {re.escape(image)} in \d+ s", second), told
