"""What every environment promises about limits."""

import asyncio
import os
import time
from pathlib import Path

import pytest

from environment_factory import Environments, running, sh, sleeper, sleeping
from proctor.core.environment import Limits
from proctor.core.errors import LimitReached
from waiting import PATIENCE, limits

HOG = "import sys\nheld = []\nwhile True: held.append(bytearray(16 << 20)); print(len(held) * 16, flush=True)"


async def test_a_memory_hog_is_stopped_and_the_environment_goes_on(environments: Environments) -> None:
    environment = await environments.start(limits=Limits(memory_mb=256, output_bytes=100_000))
    result = await environment.exec(["python3", "-c", HOG], timeout=60)
    assert result.exit_code in {1, 137}  # MemoryError, or killed
    assert not result.timed_out
    assert int(result.stdout.split()[-1]) < 300
    assert (await sh(environment, "echo alive")).stdout == b"alive\n"


async def test_a_fork_bomb_is_contained_and_can_be_killed(sealed: Environments) -> None:
    environment = await sealed.start(limits=Limits(processes=60))
    sleep = sleeper()
    script = f"""
import os, time
while True:
    try:
        os.fork() or os.execvp("sleep", {sleep.split()})
    except OSError:
        time.sleep(0.01)
"""
    for seconds in limits(3):
        bomb = asyncio.create_task(environment.exec(["python3", "-c", script], timeout=seconds))
        counted = 0
        while not bomb.done():
            counted = max(counted, await asyncio.to_thread(running, sleep))
        assert (await bomb).timed_out
        if counted > 10:
            break
    assert 10 < counted <= 60
    assert (await sh(environment, "echo alive")).stdout == b"alive\n"
    assert await sleeping(environment, sleep) == 0


async def test_a_bomb_of_bombs_ends_with_its_timeout(sealed: Environments) -> None:
    environment = await sealed.start(limits=Limits(processes=100))
    started = time.monotonic()
    result = await environment.exec(["bash", "-c", "bomb() { bomb | bomb & }; bomb; sleep 1000"], timeout=2)
    assert result.timed_out
    assert time.monotonic() - started < 60
    assert (await sh(environment, "echo alive")).stdout == b"alive\n"


async def test_a_file_cannot_grow_past_the_disk_limit(environments: Environments) -> None:
    environment = await environments.start(limits=Limits(disk_mb=20))
    result = await sh(environment, "head -c 30000000 /dev/zero >large; stat -c %s large")
    assert int(result.stdout.split()[-1]) == 20 << 20


async def test_an_environment_that_fills_the_disk_is_ended(environments: Environments, tmp_path: Path) -> None:
    environment = await environments.start(limits=Limits(disk_mb=20))
    script = "i=0; while :; do head -c 5000000 /dev/zero >$i; i=$((i+1)); sleep 0.3; done"
    with pytest.raises(LimitReached, match="disk"):
        await asyncio.wait_for(sh(environment, script), 60)
    with pytest.raises(LimitReached, match="disk"):
        await sh(environment, "true")
    await environment.get(environment.workdir, tmp_path / "out")
    assert len(list((tmp_path / "out").iterdir())) > 3


async def test_a_hidden_directory_does_not_hide_its_size(environments: Environments) -> None:
    environment = await environments.start(limits=Limits(disk_mb=20))
    script = "mkdir d; for i in 1 2 3 4 5 6 7 8; do head -c 5000000 /dev/zero >d/$i; done; chmod 0 d; sleep 1000"
    with pytest.raises(LimitReached, match="disk"):
        await asyncio.wait_for(sh(environment, script), 60)


async def test_the_clock_of_the_environment_ends_everything(sealed: Environments) -> None:
    environment = await sealed.start(limits=Limits(wall_seconds=1.5))
    sleep = sleeper()
    started = time.monotonic()
    with pytest.raises(LimitReached, match="wall clock") as caught:
        await sh(environment, f"setsid {sleep} & {sleep}")
    assert time.monotonic() - started < PATIENCE
    assert caught.value.limit == 1.5
    assert running(sleep) == 0


async def test_processor_time_is_shared_out(sealed: Environments) -> None:
    if os.cpu_count() == 1:
        pytest.skip("one processor is one, with a limit and without")
    environment = await sealed.start(limits=Limits(cpus=1))
    spin = "import time\nend = time.monotonic() + 2\nwhile time.monotonic() < end: pass\nprint(time.process_time())"
    results = await asyncio.gather(*(environment.exec(["python3", "-c", spin]) for _ in range(2)))
    # Two that want all of a processor for two seconds each.
    assert sum(float(result.stdout) for result in results) < 3


async def test_programs_leave_no_core_files(environments: Environments) -> None:
    environment = await environments.start()
    result = await sh(environment, "ulimit -c; sh -c 'kill -SEGV $$'; ls")
    assert result.stdout == b"0\n"


async def test_limits_of_one_environment_are_not_those_of_the_next(sealed: Environments) -> None:
    tight = await sealed.start(limits=Limits(processes=20))
    free = await sealed.start()
    script = "n=0; for i in $(seq 40); do sleep 300 >/dev/null 2>&1 & n=$((n+1)); done; echo $n"
    limited = await tight.exec(["sh", "-c", script], timeout=PATIENCE)
    unlimited = await free.exec(["sh", "-c", script], timeout=PATIENCE)
    assert unlimited.stdout == b"40\n"
    assert limited.stdout != b"40\n"


async def test_an_environment_has_limits_though_nobody_gave_any(environments: Environments) -> None:
    environment = await environments.start()
    blocks = Limits().with_defaults().disk_mb
    assert blocks is not None
    assert (await sh(environment, "ulimit -f")).stdout == b"%d\n" % ((blocks << 20) // 512)


async def test_a_command_that_fails_at_a_limit_says_at_which(environments: Environments) -> None:
    environment = await environments.start(limits=Limits(memory_mb=128, processes=40, output_bytes=100_000))
    hog = await environment.exec(["python3", "-c", HOG], timeout=60)
    if hog.exit_code == 1:
        pytest.skip("no control groups here: limits are laid on single processes, which see for themselves")
    assert hog.limit == "memory of the environment (128 MB)"
    assert (await sh(environment, "exit 3")).limit == ""
    # Last: while these processes are there, no other may start.
    forks = "import os, time\nwhile True: os.fork() or time.sleep(60)"
    assert (await environment.exec(["python3", "-c", forks], timeout=60)).limit == "processes of the environment (40)"
