"""What every environment promises about its end."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from environment_factory import Environments, containers_of, environments_left, running, sh, sleeper, wait_running
from proctor.core.environment import EnvironmentSpec
from proctor.core.errors import UsageError
from proctor.environments import reap
from proctor.environments.docker_engine import current_owner
from waiting import PATIENCE

STUBBORN = "trap '' TERM HUP INT; {0} & setsid {0} & (setsid sh -c '{0}; true' &) ; nohup {0} >/dev/null 2>&1 &"


async def test_nothing_lives_on_after_stop(environments: Environments) -> None:
    environment = await environments.start()
    sleep = sleeper()
    await sh(environment, STUBBORN.format(sleep))
    wait_running(sleep, 4)
    started = time.monotonic()
    await environment.stop()
    assert running(sleep) == 0
    assert time.monotonic() - started < 30
    await environment.stop()


async def test_a_stopped_environment_says_so(environments: Environments, tmp_path: Path) -> None:
    environment = await environments.start()
    await environment.stop()
    with pytest.raises(UsageError, match="stopped"):
        await environment.exec(["true"])
    with pytest.raises(UsageError, match="stopped"):
        await environment.put(b"", f"{environment.workdir}/x")
    with pytest.raises(UsageError, match="stopped"):
        await environment.get(environment.workdir, tmp_path / "x")


async def test_an_environment_is_left_by_its_context(environments: Environments) -> None:
    sleep = sleeper()
    async with await environments.provider.start(EnvironmentSpec()) as environment:
        await sh(environment, f"nohup {sleep} >/dev/null 2>&1 &")
        wait_running(sleep, 1)
    assert running(sleep) == 0


async def test_stop_ends_a_command_that_is_waited_for(environments: Environments) -> None:
    environment = await environments.start()
    sleep = sleeper()
    waiting = asyncio.create_task(sh(environment, sleep))
    await asyncio.to_thread(wait_running, sleep, 1)
    await environment.stop()
    done = await asyncio.wait_for(asyncio.gather(waiting, return_exceptions=True), PATIENCE)
    assert done


OWNER = """
import asyncio, sys
sys.path.insert(0, {tests!r})
from pathlib import Path
from environment_factory import make_provider, sh
from proctor.core.environment import EnvironmentSpec
from proctor.environments.docker_engine import current_owner

async def main():
    provider = make_provider({kind!r}, Path({folder!r}))
    environment = await provider.start(EnvironmentSpec())
    await sh(environment, {script!r})
    print(current_owner(), flush=True)
    await sh(environment, {sleep!r})

asyncio.run(main())
"""


async def test_nothing_lives_on_when_the_owner_is_killed(environments: Environments, tmp_path: Path) -> None:
    sleep = sleeper()
    program = OWNER.format(
        tests=str(Path(__file__).parent.parent),
        kind=environments.kind,
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
    await reap(environments_dir=tmp_path / "environments", docker=environments.kind == "docker")
    if environments.kind == "docker":
        assert await containers_of(dead) == []
    else:
        assert environments_left(tmp_path / "environments") == []


async def test_many_environments_at_once(sealed: Environments) -> None:
    environments = await asyncio.gather(*(sealed.start() for _ in range(6)))
    await asyncio.gather(
        *(sh(environment, f"echo {number} >own; sleep 0.2") for number, environment in enumerate(environments))
    )
    results = await asyncio.gather(*(sh(environment, "cat own") for environment in environments))
    assert [int(result.stdout) for result in results] == list(range(6))
    await asyncio.gather(*(environment.stop() for environment in environments))


async def test_a_start_that_is_cancelled_leaves_nothing(environments: Environments, tmp_path: Path) -> None:
    (tmp_path / "tree").mkdir()
    for number in range(200):
        (tmp_path / "tree" / str(number)).write_text("x")
    for delay in (0.0, 0.005, 0.01, 0.02, 0.05, 0.2):
        starting = asyncio.create_task(environments.provider.start(EnvironmentSpec(workspace=tmp_path / "tree")))
        await asyncio.sleep(delay)
        starting.cancel()
        try:
            environment = await starting
        except asyncio.CancelledError:
            continue
        await environment.stop()
    if environments.kind == "docker":
        assert await containers_of(current_owner()) == []
    else:
        assert environments_left(tmp_path / "environments") == []


async def test_the_same_environment_has_the_same_digest(environments: Environments) -> None:
    one, other = await environments.start(), await environments.start()
    assert one.digest == other.digest
    assert one.digest.startswith(f"{environments.kind}:")
