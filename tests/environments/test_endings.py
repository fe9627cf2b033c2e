"""What every room promises about its end."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from proctor.core.environment import EnvironmentSpec
from proctor.core.errors import UsageError
from proctor.environments import reap
from proctor.environments.docker_engine import current_owner
from rooms import Rooms, containers_of, running, sh, sleeper, wait_running
from waiting import PATIENCE

STUBBORN = "trap '' TERM HUP INT; {0} & setsid {0} & (setsid sh -c '{0}; true' &) ; nohup {0} >/dev/null 2>&1 &"


async def test_nothing_lives_on_after_stop(rooms: Rooms) -> None:
    room = await rooms.start()
    sleep = sleeper()
    await sh(room, STUBBORN.format(sleep))
    wait_running(sleep, 4)
    started = time.monotonic()
    await room.stop()
    assert running(sleep) == 0
    assert time.monotonic() - started < 30
    await room.stop()


async def test_a_stopped_room_says_so(rooms: Rooms, tmp_path: Path) -> None:
    room = await rooms.start()
    await room.stop()
    with pytest.raises(UsageError, match="stopped"):
        await room.exec(["true"])
    with pytest.raises(UsageError, match="stopped"):
        await room.put(b"", f"{room.workdir}/x")
    with pytest.raises(UsageError, match="stopped"):
        await room.get(room.workdir, tmp_path / "x")


async def test_a_room_is_left_by_its_context(rooms: Rooms) -> None:
    sleep = sleeper()
    async with await rooms.provider.start(EnvironmentSpec()) as room:
        await sh(room, f"nohup {sleep} >/dev/null 2>&1 &")
        wait_running(sleep, 1)
    assert running(sleep) == 0


async def test_stop_ends_a_command_that_is_waited_for(rooms: Rooms) -> None:
    room = await rooms.start()
    sleep = sleeper()
    waiting = asyncio.create_task(sh(room, sleep))
    await asyncio.to_thread(wait_running, sleep, 1)
    await room.stop()
    done = await asyncio.wait_for(asyncio.gather(waiting, return_exceptions=True), PATIENCE)
    assert done


OWNER = """
import asyncio, sys
sys.path.insert(0, {tests!r})
from pathlib import Path
from rooms import make_provider, sh
from proctor.core.environment import EnvironmentSpec
from proctor.environments.docker_engine import owner

async def main():
    provider = make_provider({kind!r}, Path({folder!r}))
    room = await provider.start(EnvironmentSpec())
    await sh(room, {script!r})
    print(owner(), flush=True)
    await sh(room, {sleep!r})

asyncio.run(main())
"""


async def test_nothing_lives_on_when_the_owner_is_killed(rooms: Rooms, tmp_path: Path) -> None:
    sleep = sleeper()
    program = OWNER.format(
        tests=str(Path(__file__).parent.parent),
        kind=rooms.kind,
        folder=str(tmp_path),
        script=STUBBORN.format(sleep),
        sleep=sleep,
    )
    process = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE)
    assert process.stdout is not None
    with process.stdout:
        dead = process.stdout.readline().decode().strip()
    wait_running(sleep, 5)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    wait_running(sleep, 0)
    await reap(environments_dir=tmp_path / "rooms", docker=rooms.kind == "docker")
    if rooms.kind == "docker":
        assert await containers_of(dead) == []
    else:
        assert list((tmp_path / "rooms").iterdir()) == []


async def test_many_rooms_at_once(sealed: Rooms) -> None:
    rooms = await asyncio.gather(*(sealed.start() for _ in range(6)))
    await asyncio.gather(*(sh(room, f"echo {number} >own; sleep 0.2") for number, room in enumerate(rooms)))
    results = await asyncio.gather(*(sh(room, "cat own") for room in rooms))
    assert [int(result.stdout) for result in results] == list(range(6))
    await asyncio.gather(*(room.stop() for room in rooms))


async def test_a_start_that_is_cancelled_leaves_nothing(rooms: Rooms, tmp_path: Path) -> None:
    (tmp_path / "tree").mkdir()
    for number in range(200):
        (tmp_path / "tree" / str(number)).write_text("x")
    for delay in (0.0, 0.005, 0.01, 0.02, 0.05, 0.2):
        starting = asyncio.create_task(rooms.provider.start(EnvironmentSpec(workspace=tmp_path / "tree")))
        await asyncio.sleep(delay)
        starting.cancel()
        try:
            room = await starting
        except asyncio.CancelledError:
            continue
        await room.stop()
    if rooms.kind == "docker":
        assert await containers_of(current_owner()) == []
    else:
        assert list((tmp_path / "rooms").iterdir()) == []


async def test_the_same_room_has_the_same_digest(rooms: Rooms) -> None:
    one, other = await rooms.start(), await rooms.start()
    assert one.digest == other.digest
    assert one.digest.startswith(f"{rooms.kind}:")
