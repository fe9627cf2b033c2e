"""What every environment promises about what it can reach."""

import asyncio
import os
import socket
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from environment_factory import Environments, sh
from proctor.core.environment import Environment, Network
from proctor.core.errors import InfrastructureError
from waiting import PATIENCE

CONNECT = """
import socket, sys
try:
    socket.create_connection((sys.argv[1], int(sys.argv[2])), 2).close()
    print("connected")
except OSError as error:
    print(error)
"""


async def connects(environment: Environment, host: str, port: int) -> bool:
    result = await environment.exec(["python3", "-c", CONNECT, host, str(port)])
    assert result.exit_code == 0, result.stderr
    return result.stdout == b"connected\n"


@asynccontextmanager
async def gateway(folder: Path) -> AsyncIterator[Path]:
    """A stand-in for the model gateway: says back what it is sent, in capitals, then the length of it."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        size = 0
        while data := await reader.read(65536):
            size += len(data)
            writer.write(data.upper())
            await writer.drain()
        writer.write(b"|%d" % size)
        await writer.drain()
        writer.close()

    # Unix sockets have short names.
    path = Path(os.path.relpath(folder)) / "model.sock"
    server = await asyncio.start_unix_server(serve, path)
    async with server:
        yield folder / "model.sock"


TALK = """
import socket, sys, urllib.parse
url = urllib.parse.urlsplit(sys.argv[1])
with socket.create_connection((url.hostname, url.port), 60) as connection:
    connection.sendall(sys.argv[2].encode() * int(sys.argv[3]))
    connection.shutdown(socket.SHUT_WR)
    answer = b""
    while data := connection.recv(65536):
        answer += data
print(answer[:10].decode(), answer[-20:].decode(), len(answer))
"""


async def until_it_serves(environment: Environment, host: str, port: int) -> None:
    """Wait until a server that was started in an environment can be reached from there."""
    deadline = time.monotonic() + PATIENCE
    while not await connects(environment, host, port):
        assert time.monotonic() < deadline, f"nothing is served at {host}:{port}"


async def talk(environment: Environment, text: str, times: int = 1) -> str:
    assert environment.model_url is not None
    result = await environment.exec(["python3", "-c", TALK, environment.model_url, text, str(times)])
    assert result.exit_code == 0, result.stderr
    return result.stdout.decode().strip()


@pytest.fixture
def host_server() -> Iterator[int]:
    """A server of the host on every address."""
    with socket.create_server(("0.0.0.0", 0), backlog=50) as server:
        yield server.getsockname()[1]


async def test_an_environment_without_network_reaches_nothing(sealed: Environments, host_server: int) -> None:
    environment = await sealed.start(network=Network.NONE)
    assert environment.model_url is None
    addresses = ["127.0.0.1", socket.gethostbyname(socket.gethostname()), "192.0.2.1"]
    if sealed.kind == "docker":
        addresses.append("172.17.0.1")
    for address in addresses:
        assert not await connects(environment, address, host_server)
    links = await sh(environment, "cat /proc/net/dev | tail -n +3 | cut -d: -f1")
    assert links.stdout.split() == [b"lo"]


async def test_loopback_works_without_a_network(sealed: Environments) -> None:
    environment = await sealed.start(network=Network.NONE)
    await sh(environment, "nohup python3 -m http.server 8000 --bind 127.0.0.1 >/dev/null 2>&1 &")
    await until_it_serves(environment, "127.0.0.1", 8000)


async def test_the_model_gateway_is_reached_and_nothing_else(
    sealed: Environments, tmp_path: Path, host_server: int
) -> None:
    async with gateway(tmp_path) as path:
        environment = await sealed.start(network=Network.MODEL, model_socket=path)
        assert await talk(environment, "hello") == "HELLO|5 HELLO|5 7"
        for address in ("192.0.2.1", "127.0.0.1") + (("172.17.0.1",) if sealed.kind == "docker" else ()):
            assert not await connects(environment, address, host_server)


async def test_much_goes_through_to_the_gateway_at_once(sealed: Environments, tmp_path: Path) -> None:
    async with gateway(tmp_path) as path:
        environment = await sealed.start(network=Network.MODEL, model_socket=path)
        answers = await asyncio.gather(*(talk(environment, letter * 100, 20_000) for letter in "abcde"))
        assert answers == [f"{letter * 10} {letter * 12}|2000000 2000008" for letter in "ABCDE"]


async def test_a_gateway_that_is_gone_is_a_closed_connection(sealed: Environments, tmp_path: Path) -> None:
    async with gateway(tmp_path) as path:
        environment = await sealed.start(network=Network.MODEL, model_socket=path)
        assert (await talk(environment, "x")).startswith("X|1")
    path.unlink(missing_ok=True)
    assert environment.model_url is not None
    result = await environment.exec(["python3", "-c", TALK, environment.model_url, "x", "1"])
    assert "|" not in result.stdout.decode()
    assert (await sh(environment, "echo still here")).stdout == b"still here\n"


async def test_an_open_environment_reaches_the_host_and_the_gateway(
    environments: Environments, tmp_path: Path, host_server: int
) -> None:
    async with gateway(tmp_path) as path:
        environment = await environments.start(network=Network.OPEN, model_socket=path)
        other = await environments.start(network=Network.OPEN, model_socket=path)
        assert (await talk(environment, "x")).startswith("X|1")
        assert (await talk(other, "y")).startswith("Y|1")
        host = "172.17.0.1" if environments.kind == "docker" else "127.0.0.1"
        assert await connects(environment, host, host_server)


async def test_a_gateway_that_is_not_there_is_said_so(local: Environments, tmp_path: Path) -> None:
    with pytest.raises(InfrastructureError, match="gateway"):
        await local.start(network=Network.MODEL, model_socket=tmp_path / "none.sock")


async def test_environments_side_by_side_do_not_reach_each_other(sealed: Environments, tmp_path: Path) -> None:
    async with gateway(tmp_path) as path:
        one = await sealed.start(network=Network.MODEL, model_socket=path)
        other = await sealed.start(network=Network.MODEL, model_socket=path)
        await sh(one, "nohup python3 -m http.server 8000 --bind 0.0.0.0 >/dev/null 2>&1 &")
        addresses = (await sh(one, "hostname -I")).stdout.decode().split() or ["127.0.0.1"]
        await until_it_serves(one, addresses[0], 8000)
        assert not await connects(other, addresses[0], 8000)
