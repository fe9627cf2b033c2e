"""What holds for environments in containers only."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Self

import pytest
from aiodocker import Docker
from image_registry import Registry, random_layer

from docker_image import IMAGE, need_docker
from environment_factory import Environments, containers_of, running, sh, sleeper, wait_running
from environments.test_network import connects, gateway, talk, until_it_serves
from proctor.core.environment import EnvironmentSpec, Limits, Network
from proctor.core.errors import InfrastructureError, RetryableError
from proctor.environments import docker_unavailable_reason, reap
from proctor.environments.docker import DockerProvider, PullProgress
from proctor.environments.docker_engine import LABEL, OWNER_LABEL, connect, current_owner, disconnect, owner_has_ended
from proctor.environments.netns import may_enter_namespace
from waiting import PATIENCE


@asynccontextmanager
async def engine() -> AsyncIterator[Docker]:
    need_docker()
    docker = connect()
    try:
        yield docker
    finally:
        await disconnect(docker)


async def test_the_disk_that_images_take_is_known() -> None:
    need_docker()
    provider = DockerProvider()
    try:
        (root,) = await provider.storage_folders()
    finally:
        await provider.close()
    assert root.is_dir()


async def test_a_container_says_whose_it_is_and_what_for(docker: Environments) -> None:
    await docker.start(labels={"run": "r1", "task": "t/1"})
    (described,) = await containers_of(current_owner())
    labels = described["Config"]["Labels"]
    assert (labels[LABEL], labels["proctor.run"], labels["proctor.task"]) == ("1", "r1", "t/1")
    assert labels[OWNER_LABEL] == current_owner()
    assert described["HostConfig"]["Init"]
    assert described["HostConfig"]["SecurityOpt"] == ["no-new-privileges"]


async def test_a_stopped_environment_leaves_no_container(docker: Environments) -> None:
    environment = await docker.start()
    await environment.stop()
    assert await containers_of(current_owner()) == []


async def test_the_digest_is_the_image_s(docker: Environments) -> None:
    environment = await docker.start(image=IMAGE)
    async with engine() as client:
        assert environment.digest == f"docker:{(await client.images.inspect(IMAGE))['Id']}"


async def test_root_can_do_what_installing_takes(docker: Environments) -> None:
    environment = await docker.start()
    script = "id -u; useradd -m other && su other -c 'id -un' && touch /usr/local/bin/x && chown other /usr/local/bin/x"
    result = await sh(environment, script)
    assert (result.exit_code, result.stdout) == (0, b"0\nother\n")


async def test_a_user_that_is_not_there_is_named(docker: Environments) -> None:
    environment = await docker.start()
    with pytest.raises(InfrastructureError, match="the container has no user nobody-here"):
        await environment.exec(["true"], user="nobody-here")


async def test_new_privileges_can_be_allowed(tmp_path: Path) -> None:
    need_docker()
    gained = "cp /usr/bin/id /tmp/id && chmod u+s /tmp/id && su nobody -s /bin/sh -c '/tmp/id -u'"
    for provider, expected in (
        (DockerProvider(image=IMAGE), b"65534\n"),
        (DockerProvider(image=IMAGE, no_new_privileges=False), b"0\n"),
    ):
        async with await provider.start(EnvironmentSpec()) as environment:
            assert (await sh(environment, gained)).stdout == expected
        await provider.close()


async def test_a_container_that_ends_itself_is_started_again(docker: Environments, tmp_path: Path) -> None:
    async with gateway(tmp_path) as path:
        environment = await docker.start(network=Network.MODEL, model_socket=path)
        await sh(environment, "echo kept >file")
        killed = await sh(environment, "kill -9 -1; sleep 100")
        assert killed.exit_code == 137
        assert (await sh(environment, "cat file")).stdout == b"kept\n"
        assert (await talk(environment, "x")).startswith("X|1")


async def test_environments_on_the_internal_network_reach_the_gateway_and_not_each_other(tmp_path: Path) -> None:
    need_docker()
    provider = DockerProvider(image=IMAGE, private_relay=False)
    try:
        async with gateway(tmp_path) as path:
            spec = EnvironmentSpec(network=Network.MODEL, model_socket=path)
            async with await provider.start(spec) as one, await provider.start(spec) as other:
                assert one.model_url is not None
                assert one.model_url.startswith(f"http://{await provider.host_address()}:")
                assert (await talk(one, "x")).startswith("X|1")
                address = (await sh(one, "hostname -I")).stdout.decode().strip()
                await sh(one, "nohup python3 -m http.server 8000 >/dev/null 2>&1 &")
                await until_it_serves(one, address, 8000)
                assert not await connects(other, address, 8000)
                assert not await connects(one, "192.0.2.1", 80)
    finally:
        await provider.close()
    async with engine() as client:
        assert await client.networks.list(filters={"label": [f"{OWNER_LABEL}={current_owner()}"]}) == []


@pytest.mark.parametrize("changes_network", [False, True])
async def test_environments_on_the_open_network_reach_the_host_and_not_each_other(changes_network: bool) -> None:
    need_docker()
    provider = DockerProvider(image=IMAGE)
    try:
        server = await asyncio.start_server(lambda _reader, writer: writer.close(), "0.0.0.0", 0)
        spec = EnvironmentSpec(network=Network.OPEN, changes_network=changes_network)
        async with server, await provider.start(spec) as one, await provider.start(spec) as other:
            if changes_network:
                for environment in (one, other):
                    await environment.set_network(Network.NONE)
                    await environment.set_network(Network.OPEN)
            address = (await sh(one, "hostname -I")).stdout.decode().strip()
            await sh(one, "nohup python3 -m http.server 8000 >/dev/null 2>&1 &")
            await until_it_serves(one, address, 8000)
            assert not await connects(other, address, 8000)
            assert await connects(other, await provider.host_address(), server.sockets[0].getsockname()[1])
    finally:
        await provider.close()
    async with engine() as client:
        assert await client.networks.list(filters={"label": [f"{OWNER_LABEL}={current_owner()}"]}) == []


async def test_a_server_bound_to_the_host_s_address_is_reached(tmp_path: Path) -> None:
    need_docker()
    provider = DockerProvider(image=IMAGE)
    try:
        server = await asyncio.start_server(lambda _reader, writer: writer.close(), await provider.host_address(), 0)
        async with server, await provider.start(EnvironmentSpec(network=Network.MODEL)) as environment:
            assert environment.model_url is None
            host, port = server.sockets[0].getsockname()
            assert await connects(environment, host, port)
    finally:
        await provider.close()


async def test_one_network_serves_all_environments_of_a_provider(tmp_path: Path) -> None:
    need_docker()
    provider = DockerProvider(image=IMAGE, private_relay=False)
    try:
        spec = EnvironmentSpec(network=Network.MODEL)
        environments = await asyncio.gather(*(provider.start(spec) for _ in range(4)))
        async with engine() as client:
            assert len(await client.networks.list(filters={"label": [f"{OWNER_LABEL}={current_owner()}"]})) == 1
        await asyncio.gather(*(environment.stop() for environment in environments))
    finally:
        await provider.close()


async def test_the_gateway_is_on_the_environments_own_loopback_where_we_are_root(
    docker: Environments, tmp_path: Path
) -> None:
    if not may_enter_namespace():
        pytest.skip("only root can enter a container's network")
    async with gateway(tmp_path) as path:
        environment = await docker.start(network=Network.MODEL, model_socket=path)
        assert environment.model_url == "http://127.0.0.1:4010"
        assert (await sh(environment, "tail -n +3 /proc/net/dev | cut -d: -f1")).stdout.split() == [b"lo"]


# What goes wrong


async def test_an_image_that_is_nowhere_is_said_so() -> None:
    need_docker()
    provider = DockerProvider(image="127.0.0.1:1/no/such:image")
    with pytest.raises(InfrastructureError, match=r"127\.0\.0\.1:1/no/such:image is not on this machine and cannot be"):
        await provider.start(EnvironmentSpec())
    await provider.close()


async def test_an_image_is_pulled_with_progress_and_one_without_a_shell_is_said_so(tmp_path: Path) -> None:
    need_docker()
    seen: list[PullProgress] = []
    async with Registry() as registry:
        image = registry.add("tiny", [random_layer(300_000)])
        provider = DockerProvider(image=image, on_pull=seen.append, image_index_dir=tmp_path)
        try:
            with pytest.raises(InfrastructureError, match="/bin/sh"):
                await provider.start(EnvironmentSpec())
            assert {step.image for step in seen} == {image}
            assert any(step.total > 0 and step.layer for step in seen)
            assert await containers_of(current_owner()) == []
        finally:
            await provider.close()
            async with engine() as client:
                await client.images.delete(image, force=True)


class Proxy:
    """Stands between us and the engine, and can go away."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._server: asyncio.Server | None = None
        self._open: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        short = os.path.relpath(self.path)
        self._server = await asyncio.start_unix_server(self._serve, short)
        return self

    async def __aexit__(self, *_exception: object) -> None:
        await self.cut()

    async def cut(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None
        self.path.unlink(missing_ok=True)
        for writer in self._open:
            writer.transport.abort()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        far_reader, far_writer = await asyncio.open_unix_connection("/var/run/docker.sock")
        self._open |= {writer, far_writer}
        for pair in ((reader, far_writer), (far_reader, writer)):
            task = asyncio.create_task(self._carry(*pair))
            self._tasks.add(task)

    @staticmethod
    async def _carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(65536):
                writer.write(data)
                await writer.drain()
            if writer.can_write_eof():
                writer.write_eof()
        except OSError:
            return


async def test_an_engine_that_goes_away_is_worth_another_try(tmp_path: Path) -> None:
    need_docker()
    if not Path("/var/run/docker.sock").is_socket():
        pytest.skip("the engine is not at its usual socket")
    sleep = sleeper()
    async with Proxy(tmp_path / "engine.sock") as proxy:
        provider = DockerProvider(url=f"unix://{proxy.path}", image=IMAGE)
        environment = await provider.start(EnvironmentSpec())
        waiting = asyncio.create_task(sh(environment, sleep))
        await asyncio.to_thread(wait_running, sleep, 1)
        await proxy.cut()
        with pytest.raises(RetryableError, match="engine"):
            await asyncio.wait_for(waiting, PATIENCE)
        for call in (
            sh(environment, "true"),
            environment.put(b"x", "/workspace/x"),
            environment.get("/workspace", tmp_path / "out"),
            provider.start(EnvironmentSpec()),
            environment.stop(),
        ):
            with pytest.raises(RetryableError, match="engine"):
                await asyncio.wait_for(call, PATIENCE)
        await provider.close()
    # What held the container alive has gone.
    wait_running(sleep, 0)
    async with engine() as docker:
        for described in await containers_of(current_owner()):
            await docker.containers.container(described["Id"]).delete(force=True)


async def test_no_engine_at_all_is_said_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reason = await docker_unavailable_reason(f"unix://{tmp_path}/none.sock")
    assert reason is not None
    assert "DOCKER_HOST" in reason
    monkeypatch.setenv("DOCKER_HOST", "nonsense")
    reason = await docker_unavailable_reason()
    assert reason is not None
    assert "no Docker engine" in reason


async def test_the_docker_engine_is_available() -> None:
    need_docker()
    assert await docker_unavailable_reason() is None


# Leftovers

OWNER_SCRIPT = """
import asyncio, os, sys
from proctor.core.environment import EnvironmentSpec, Limits, Network
from proctor.environments.docker import DockerProvider
from proctor.environments.docker_engine import current_owner

async def main():
    provider = DockerProvider(image=sys.argv[1], private_relay=False)
    await provider.start(EnvironmentSpec(network=Network.MODEL))
    print(current_owner(), flush=True)
    os.kill(os.getpid(), 9)

asyncio.run(main())
"""


async def test_the_reaper_removes_what_dead_owners_left_and_nothing_else(docker: Environments, tmp_path: Path) -> None:
    living = await docker.start(network=Network.MODEL)
    process = subprocess.run([sys.executable, "-c", OWNER_SCRIPT, IMAGE], capture_output=True, text=True, check=False)
    assert process.returncode == -signal.SIGKILL
    dead = process.stdout.strip()
    assert owner_has_ended(dead)
    # Tests beside this one reap too.
    assert len(await containers_of(dead)) <= 1
    await reap(environments_dir=tmp_path / "environments")
    assert await containers_of(dead) == []
    async with engine() as client:
        assert await client.networks.list(filters={"label": [f"{OWNER_LABEL}={dead}"]}) == []
    assert (await sh(living, "echo alive")).stdout == b"alive\n"
    assert len(await containers_of(current_owner())) == 1


def test_an_owner_is_gone_when_its_process_is() -> None:
    assert not owner_has_ended(current_owner())
    host, boot, _, started = current_owner().split(" ")
    assert owner_has_ended(f"{host} {boot} {os.getpid()} 1.00")  # the number was given to another process
    assert owner_has_ended(f"{host} another-boot {os.getpid()} {started}")
    assert not owner_has_ended(f"elsewhere {boot} 1 {started}")
    assert running("no such command") == 0


async def test_an_engine_without_gpus_refuses_them_in_a_sentence_and_nothing_is_left() -> None:
    need_docker()
    provider = DockerProvider()
    try:
        if await provider.gpu_count():
            pytest.skip("this machine has GPUs")
        with pytest.raises(InfrastructureError, match="gpu"):
            await provider.start(EnvironmentSpec(image=IMAGE, limits=Limits(gpus=1)))
    finally:
        await provider.close()
