"""Attacks on tasks with several containers, through the compose plugin: none is resolved."""

import asyncio
import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from cheats.harbor_compose import ATTACKS, HONEST, SEPARATE, SHARED, ComposeAttack
from environment_factory import sh, without_clock
from environments.test_network import connects, gateway
from harbor_world import opened, verdict_of, write_task
from paths import OPTIONAL_PLUGIN
from proctor.core.benchmark import GradeOptions
from proctor.core.causes import Cause, Status
from proctor.core.environment import EnvironmentSpec, Network
from proctor.core.errors import InfrastructureError, LimitReached
from proctor.core.verdict import Verdict
from proctor.environments import reap
from proctor.environments.docker import DockerProvider
from proctor.environments.docker_compose import compose_version
from proctor.environments.docker_engine import OWNER_LABEL, connect, current_owner, disconnect
from slow_tests import sampled


@pytest.fixture
async def provider(provider: DockerProvider) -> DockerProvider:
    if await compose_version() is None:
        pytest.skip(OPTIONAL_PLUGIN)
    return provider


async def verdict_on(files: dict[str, str], script: str, provider: DockerProvider, folder: Path) -> Verdict:
    """What is made of a machine in whose main service this was run."""
    write_task(folder / "tasks" / "store", files)
    bench = opened(folder / "tasks")
    (task,) = bench.tasks()
    kept = folder / "kept"
    kept.mkdir()
    async with (
        await provider.start(without_clock(await bench.prepare(task, kept))) as environment,
        bench.serve(task, environment, kept),
    ):
        await sh(environment, script)
        prediction = await bench.collect_with(task, environment, kept, GradeOptions())
    return await verdict_of(bench, task, prediction, provider, kept)


@pytest.mark.parametrize("attack", sampled(ATTACKS, every=15), ids=lambda attack: attack.name)
async def test_no_attack_on_several_containers_is_resolved(
    attack: ComposeAttack, provider: DockerProvider, tmp_path: Path
) -> None:
    try:
        verdict = await verdict_on(attack.task, attack.script, provider, tmp_path)
    except LimitReached:
        assert attack.name == "more than may be copied"
        return
    assert verdict.status is Status.UNRESOLVED, verdict


@pytest.mark.long
@pytest.mark.parametrize("files", [SHARED, SEPARATE], ids=["shared", "separate"])
async def test_honest_work_in_several_containers_is_resolved(
    files: dict[str, str], provider: DockerProvider, tmp_path: Path
) -> None:
    verdict = await verdict_on(files, HONEST, provider, tmp_path)
    assert (verdict.status, verdict.cause, verdict.findings) == (Status.RESOLVED, Cause.SOLVED, ()), verdict
    assert verdict.controls is not None
    assert verdict.controls.uncontrolled == ()


@pytest.mark.long
async def test_the_gateway_is_reached_from_the_main_service_only_and_this_machine_from_none(
    provider: DockerProvider, tmp_path: Path
) -> None:
    folder = write_task(tmp_path / "store", SHARED)
    async with gateway(tmp_path) as path:
        spec = EnvironmentSpec(
            build=folder / "environment",
            compose=folder / "environment" / "docker-compose.yaml",
            network=Network.MODEL,
            model_socket=path,
        )
        async with await provider.start(spec) as environment:
            assert environment.model_url is not None
            port = int(environment.model_url.rpartition(":")[2].strip("/"))
            store = environment.service("store")
            assert await connects(environment, "localhost", port)
            assert await connects(environment, "store", 8000)
            assert not await connects(store, "main", port)
            routes = (await sh(store, "cat /proc/net/route")).stdout.split()
            assert routes
            gateways = {
                ".".join(str(byte) for byte in bytes.fromhex(word.decode())[::-1])
                for word in routes
                if len(word) == 8 and word.endswith(b"AC") and not word.startswith(b"0000")
            }
            for address in gateways:
                assert not await connects(store, address, 22)
                assert not await connects(environment, address, 22)


_OWNER = """
import asyncio, os, sys
from pathlib import Path
from proctor.core.environment import EnvironmentSpec
from proctor.environments.docker import DockerProvider
from proctor.environments.docker_engine import current_owner

async def main():
    folder = Path(sys.argv[1])
    provider = DockerProvider(image_map={"ubuntu:24.04": sys.argv[2]})
    await provider.start(EnvironmentSpec(build=folder, compose=folder / "docker-compose.yaml"))
    print(current_owner(), flush=True)
    os.kill(os.getpid(), 9)

asyncio.run(main())
"""


async def _left_by(owner: str) -> dict[str, int]:
    docker = connect()
    filters = json.dumps({"label": [f"{OWNER_LABEL}={owner}"]})
    try:
        listed = await docker._query_json("volumes", method="GET", params={"filters": filters})
        return {
            "containers": len(await docker.containers.list(all="true", filters=filters)),
            "networks": len(await docker.networks.list(filters={"label": [f"{OWNER_LABEL}={owner}"]})),
            "volumes": len(listed.get("Volumes") or ()),
        }
    finally:
        await disconnect(docker)


@pytest.mark.long
async def test_services_networks_and_volumes_of_a_killed_owner_are_reaped(
    provider: DockerProvider, image_map: dict[str, str], tmp_path: Path
) -> None:
    folder = write_task(tmp_path / "store", SHARED) / "environment"
    words = [sys.executable, "-c", _OWNER, str(folder), image_map["ubuntu:24.04"]]
    killed = await asyncio.to_thread(subprocess.run, words, capture_output=True, text=True, check=False)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    owner = killed.stdout.strip()
    assert (await _left_by(owner))["volumes"] == 1
    await reap(environments_dir=tmp_path / "environments")
    assert await _left_by(owner) == {"containers": 0, "networks": 0, "volumes": 0}


@pytest.mark.long
async def test_an_environment_that_is_stopped_leaves_no_volume(provider: DockerProvider, tmp_path: Path) -> None:
    folder = write_task(tmp_path / "store", SHARED) / "environment"
    spec = EnvironmentSpec(build=folder, compose=folder / "docker-compose.yaml")
    async with await provider.start(spec):
        assert (await _left_by(current_owner()))["volumes"] == 1
    assert (await _left_by(current_owner()))["volumes"] == 0


async def test_a_service_that_does_not_start_is_named_with_what_it_printed(
    provider: DockerProvider, tmp_path: Path
) -> None:
    command = "sh -c 'echo there is no configuration >&2; exit 3'"
    compose = f"services:\n  store: {{image: 'ubuntu:24.04', command: \"{command}\"}}\n"
    folder = write_task(tmp_path / "store", SHARED | {"environment/docker-compose.yaml": compose}) / "environment"
    spec = EnvironmentSpec(build=folder, compose=folder / "docker-compose.yaml")
    with pytest.raises(
        InfrastructureError, match=r"store-1 exited \(3\); services printed: .*there is no configuration"
    ):
        await provider.start(spec)
    assert await _left_by(current_owner()) == {"containers": 0, "networks": 0, "volumes": 0}
