"""Copies of a container: their own files and processes, the first one's network and sockets."""

from collections.abc import AsyncIterator

import pytest
from aiodocker import DockerError

from docker_image import IMAGE, need_docker
from environment_factory import sh
from proctor.core.environment import EnvironmentSpec
from proctor.environments.docker import DockerProvider
from proctor.environments.docker_checkpoint import pausing
from proctor.environments.docker_environment import DockerEnvironment

_SERVER = """
import os, socket, sys, threading
os.makedirs("/run/mine", exist_ok=True)
servers = [socket.create_server(("127.0.0.1", 7001)), socket.socket(socket.AF_UNIX)]
servers[1].bind("/var/run/mine/socket")
servers[1].listen()
if os.fork():
    sys.exit()
def serve(server):
    while True:
        peer, _ = server.accept()
        peer.sendall(b"served")
        peer.close()
for server in servers:
    threading.Thread(target=serve, args=(server,)).start()
"""
_CALL = """
import socket
s = socket.create_connection(("127.0.0.1", 7001)); print(s.recv(9))
s = socket.socket(socket.AF_UNIX); s.connect("/run/mine/socket"); print(s.recv(9))
"""


@pytest.fixture
async def environment() -> AsyncIterator[DockerEnvironment]:
    need_docker()
    provider = DockerProvider(image=IMAGE)
    async with await provider.start(EnvironmentSpec()) as made:
        yield made
    await provider.close()


async def output(environment: DockerEnvironment, script: str) -> str:
    done = await sh(environment, script)
    return (done.stdout + done.stderr).decode()


async def test_a_copy_has_the_files_of_its_moment_and_reaches_what_serves(environment: DockerEnvironment) -> None:
    await environment.put(_SERVER.encode(), "/opt/server.py")
    await sh(environment, "mkdir -p /data; echo early >/data/file; echo early >/etc/mine; ln -s /etc /linked")
    await sh(environment, "nohup python3 /opt/server.py >/dev/null 2>&1")
    checkpoint = await environment.checkpoint()
    await sh(environment, "echo late >/data/file; echo late >/etc/mine")
    async with await checkpoint.copy() as copy:
        assert await output(copy, f"python3 -c '{_CALL}'") == "b'served'\nb'served'\n"
        assert await output(copy, "cat /data/file /etc/mine") == "early\nearly\n"
        assert "server.py" not in await output(copy, "cat /proc/[0-9]*/cmdline | tr '\\0' ' '")
        await sh(copy, "echo mine >/data/file")
    async with await checkpoint.copy(live_files=True) as copy:
        assert await output(copy, "cat /data/file /etc/mine") == "late\nearly\n"
        await sh(copy, "echo back >/data/file")
        # A link is not followed to this machine's own files: it leads where it leads in the copy.
        assert await output(copy, "cat /linked/mine") == "early\n"
    assert await output(environment, "cat /data/file") == "back\n"
    async with await checkpoint.original() as original:
        assert "No such file" in await output(original, "cat /data/file")
    await checkpoint.remove()
    await checkpoint.remove()


async def test_a_socket_that_became_a_link_is_not_shown(environment: DockerEnvironment) -> None:
    await environment.put(_SERVER.encode(), "/opt/server.py")
    await sh(environment, "nohup python3 /opt/server.py >/dev/null 2>&1")
    await sh(environment, "rm -r /run/mine && ln -s /var/lib /run/mine && touch /var/lib/socket")
    checkpoint = await environment.checkpoint()
    async with await checkpoint.copy() as copy:
        assert "/socket" not in await output(copy, "cat /proc/self/mountinfo")
    await checkpoint.remove()


@pytest.mark.parametrize(
    "reason", ["Container abc is already paused", "OCI runtime pause failed: unable to freeze: unknown"]
)
async def test_a_container_that_cannot_be_paused_for_a_moment_is_asked_again(reason: str) -> None:
    answers = [DockerError(500, reason), DockerError(409, reason), None]

    async def pause() -> str:
        if (error := answers.pop(0)) is not None:
            raise error
        return "paused"

    assert await pausing(pause) == "paused"
    assert answers == []


async def test_a_container_that_is_gone_is_not_asked_again() -> None:
    asked = []

    async def pause() -> None:
        asked.append(1)
        raise DockerError(404, "No such container: abc")

    with pytest.raises(DockerError, match="No such container"):
        await pausing(pause)
    assert len(asked) == 1
