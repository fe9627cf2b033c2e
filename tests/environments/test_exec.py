"""What every environment promises about commands."""

import asyncio
from pathlib import Path

import pytest

from environment_factory import Environments, sh, sleeper, sleeping, wait_running
from proctor.core.errors import UsageError
from waiting import PATIENCE, limits


async def test_a_command_gives_back_its_output_and_its_exit_code(environments: Environments) -> None:
    environment = await environments.start()
    result = await sh(environment, "echo out; echo err >&2; exit 7")
    assert (result.exit_code, result.stdout, result.stderr) == (7, b"out\n", b"err\n")
    assert not result.timed_out
    assert not result.truncated
    assert 0 < result.seconds < PATIENCE


async def test_arguments_arrive_unchanged(environments: Environments) -> None:
    environment = await environments.start()
    arguments = ["a b", "", "*", "$HOME", "'\"\\", "ünï", "-n", "line\nline"]
    result = await environment.exec(["printf", "%s|", *arguments])
    assert result.stdout.decode() == "|".join([*arguments, ""])


async def test_the_environment_is_the_promised_one_and_nothing_of_ours(
    environments: Environments, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET_KEY", "not-for-agents")
    environment = await environments.start(variables={"A": "1", "B": "spec"})
    result = await environment.exec(["env", "-0"], variables={"B": "call", "C": "x=y\nz"})
    seen = dict(entry.split("=", 1) for entry in result.stdout.decode().split("\0") if entry)
    fixed = {"HOME", "LANG", "LOGNAME", "PATH", "SHELL", "TZ", "USER"}
    extra = {"docker": {"HOSTNAME"}, "plain": {"TMPDIR"}, "local": set()}[environments.kind]
    assert seen.keys() == fixed | extra | {"A", "B", "C"}
    assert (seen["A"], seen["B"], seen["C"], seen["LANG"], seen["TZ"]) == ("1", "call", "x=y\nz", "C.UTF-8", "UTC")


async def test_commands_start_in_the_workdir_or_where_they_are_told(environments: Environments) -> None:
    environment = await environments.start()
    assert (await environment.exec(["pwd"])).stdout.decode().strip() == environment.workdir
    assert (await environment.exec(["pwd"], cwd="/usr")).stdout == b"/usr\n"
    await sh(environment, "mkdir -p inner")
    assert (await environment.exec(["pwd"], cwd="inner")).stdout.decode().strip() == f"{environment.workdir}/inner"


async def test_home_and_tmp_can_be_written(environments: Environments) -> None:
    environment = await environments.start()
    result = await sh(environment, 'echo x >"$HOME/file" && echo y >"${TMPDIR:-/tmp}/file" && cat "$HOME/file"')
    assert (result.exit_code, result.stdout) == (0, b"x\n")


async def test_input_arrives_whole_and_then_ends(environments: Environments) -> None:
    environment = await environments.start()
    for size in (0, 5, 65_536, 3_000_000):
        result = await environment.exec(["wc", "-c"], stdin=b"x" * size)
        assert int(result.stdout) == size


async def test_a_command_that_does_not_read_its_input_is_not_waited_for(environments: Environments) -> None:
    environment = await environments.start()
    result = await asyncio.wait_for(environment.exec(["sh", "-c", "echo done"], stdin=b"x" * 5_000_000), 60)
    assert (result.exit_code, result.stdout) == (0, b"done\n")


EXIT_CODES = (
    (["no-such-program"], 127),
    (["/no/such/program"], 127),
    (["/etc/passwd"], 126),
    (["sh", "-c", "kill -9 $$"], 137),
    (["sh", "-c", "kill -TERM $$"], 143),
    (["sh", "-c", "kill -SEGV $$"], 139),
    (["sh", "-c", "exit 255"], 255),
)


async def test_an_exit_code_is_what_a_shell_would_show(environments: Environments) -> None:
    environment = await environments.start()
    for argv, code in EXIT_CODES:
        result = await environment.exec(argv)
        assert (result.exit_code, result.timed_out) == (code, False), argv


async def test_a_directory_that_is_not_there_is_said_so(environments: Environments) -> None:
    environment = await environments.start()
    result = await environment.exec(["true"], cwd="/no/such/place")
    assert result.exit_code == 126
    assert b"/no/such/place" in result.stderr


async def test_a_script_without_its_first_line_is_run_by_the_shell(environments: Environments) -> None:
    environment = await environments.start()
    await environment.put(b"echo ran $1\n", f"{environment.workdir}/script", mode=0o755)
    assert (await environment.exec(["./script", "well"])).stdout == b"ran well\n"


async def test_no_command_at_all_is_a_wrong_use_and_so_is_a_variable_that_cannot_be(
    environments: Environments,
) -> None:
    environment = await environments.start()
    wrong: tuple[list[str], ...] = ([], [""], ["a\0b"])
    for argv in wrong:
        with pytest.raises(UsageError):
            await environment.exec(argv)
    for name in ("", "A=B"):
        with pytest.raises(UsageError):
            await environment.exec(["true"], variables={name: "x"})


async def test_signals_are_as_a_program_expects_them(environments: Environments) -> None:
    environment = await environments.start()
    # `yes` must die of the broken pipe, not continue with errors.
    result = await environment.exec(["bash", "-c", "yes | head -1; echo ${PIPESTATUS[0]}; trap"])
    assert result.stdout == b"y\n141\n"


async def test_output_is_streamed_as_it_comes(environments: Environments) -> None:
    environment = await environments.start()
    seen: list[bytes] = []
    errors: list[bytes] = []
    first = asyncio.Event()

    def note(piece: bytes) -> None:
        seen.append(piece)
        first.set()

    # The second line is printed only when the first one has been seen.
    script = "echo one; echo bad >&2; until [ -e seen ]; do sleep 0.05; done; echo two"
    running = asyncio.create_task(sh(environment, script, on_stdout=note, on_stderr=errors.append))
    await asyncio.wait_for(first.wait(), PATIENCE)
    await sh(environment, "touch seen")
    result = await running
    assert b"".join(seen) == b"one\ntwo\n" == result.stdout
    assert b"".join(errors) == b"bad\n"


async def test_a_callback_that_fails_ends_the_command_and_reaches_the_caller(environments: Environments) -> None:
    environment = await environments.start()

    def fail(_piece: bytes) -> None:
        raise LookupError("mine")

    sleep = sleeper()
    with pytest.raises(LookupError, match="mine"):
        await sh(environment, f"echo x; exec {sleep}", on_stdout=fail)
    assert await sleeping(environment, sleep) == 0


async def test_a_callback_that_fails_at_the_very_end_reaches_the_caller_too(environments: Environments) -> None:
    environment = await environments.start()

    def fail(_piece: bytes) -> None:
        raise FileNotFoundError("no place for my log")

    with pytest.raises(FileNotFoundError, match="no place for my log"):
        await sh(environment, "echo x", on_stdout=fail)
    assert (await sh(environment, "echo alive")).stdout == b"alive\n"


async def test_of_endless_output_the_head_and_the_tail_are_kept(environments: Environments) -> None:
    environment = await environments.start()
    result = await sh(environment, "echo head; head -c 100000000 /dev/zero; echo tail", output_bytes=1000)
    assert result.truncated
    assert result.exit_code == 0
    assert result.stdout.startswith(b"head\n\0")
    assert result.stdout.endswith(b"\0tail\n")
    assert len(result.stdout) < 1100
    assert result.stderr == b""


async def test_the_environment_says_how_much_output_is_kept(environments: Environments) -> None:
    from proctor.core.environment import Limits

    environment = await environments.start(limits=Limits(output_bytes=10))
    result = await sh(environment, "echo 0123456789abcdef")
    assert result.truncated
    assert result.stdout.startswith(b"01234\n")


async def test_a_timeout_kills_the_command_and_its_descendants(environments: Environments) -> None:
    environment = await environments.start()
    sleep = sleeper()
    script = f"""
        {sleep} &
        setsid {sleep} &
        (trap '' TERM INT HUP; {sleep}; {sleep}) &
        bash -c 'setsid bash -c "{sleep}; true"; true' &
        echo started; wait
    """
    for seconds in limits(1):
        result = await sh(environment, script, timeout=seconds)
        assert result.timed_out
        assert result.exit_code == 137
        assert result.seconds < seconds + 30
        assert await sleeping(environment, sleep) == 0
        if result.stdout:
            break
    assert result.stdout == b"started\n"


async def test_output_before_a_timeout_is_kept(environments: Environments) -> None:
    environment = await environments.start()
    for seconds in limits(0.5):
        result = await sh(environment, "echo before; sleep 1000", timeout=seconds)
        assert result.timed_out
        if result.stdout:
            break
    assert result.stdout == b"before\n"


async def test_a_command_that_is_cancelled_is_killed_with_its_children(environments: Environments) -> None:
    environment = await environments.start()
    started = asyncio.Event()
    sleep = sleeper()
    running = asyncio.create_task(
        sh(environment, f"{sleep} & echo x; {sleep}; true", on_stdout=lambda _piece: started.set())
    )
    await started.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert await sleeping(environment, sleep) == 0


async def test_services_live_on_for_the_next_command(environments: Environments) -> None:
    environment = await environments.start()
    result = await asyncio.wait_for(
        sh(environment, "nohup sh -c 'while :; do date >beat; sleep 0.1; done' >/dev/null 2>&1 & echo up"), PATIENCE
    )
    assert result.stdout == b"up\n"
    beats = "rm -f beat; for _ in $(seq 100); do [ -s beat ] && echo beats && exit; sleep 0.1; done"
    assert (await sh(environment, beats)).stdout == b"beats\n"


async def test_a_child_that_holds_the_output_does_not_hold_the_command(environments: Environments) -> None:
    environment = await environments.start()
    sleep = sleeper()
    result = await asyncio.wait_for(sh(environment, f"{sleep} & echo up"), PATIENCE)
    assert (result.exit_code, result.stdout) == (0, b"up\n")
    wait_running(sleep, 1)


async def test_many_commands_run_at_once(environments: Environments) -> None:
    environment = await environments.start()
    results = await asyncio.gather(*(sh(environment, f"sleep 0.3; echo {number}") for number in range(12)))
    assert [int(result.stdout) for result in results] == list(range(12))


async def test_orphans_are_reaped(sealed: Environments) -> None:
    environment = await sealed.start()
    script = "import os, time; os.fork() or os.setsid() or os.fork() or time.sleep(0.1)"
    count = "$(ps -eo comm | grep -c '^python3')"
    # Whoever has ended and was not reaped is listed for ever.
    gone = f"for _ in $(seq 600); do [ {count} -gt $before ] || exit 0; sleep 0.1; done; ps -eo stat,args"
    ended = await sh(environment, f"before={count}; python3 -c '{script}' >/dev/null 2>&1; {gone}")
    assert (ended.exit_code, ended.stdout) == (0, b"")


async def test_a_command_sees_no_descriptor_of_ours(environments: Environments, tmp_path: Path) -> None:
    environment = await environments.start()
    with (tmp_path / "held").open("wb"):
        result = await environment.exec(["ls", "/proc/self/fd"])
    assert result.stdout.split() == [b"0", b"1", b"2", b"3"]  # 3 is the listing itself
