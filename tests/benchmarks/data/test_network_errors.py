"""Errors of the network are known as such, whichever library raised them."""

import asyncio
import http.client
import socket
import ssl
import urllib.request
from collections.abc import Callable

import aiohttp
import pytest
from huggingface_hub import HfApi

from proctor.benchmarks.data.network_errors import is_network_error


def closed_port() -> int:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        port: int = server.getsockname()[1]
        return port


async def _aiohttp(url: str) -> None:
    async with aiohttp.ClientSession() as session, session.get(url):
        pass


def _wrapped(url: str) -> None:
    try:
        urllib.request.urlopen(url)
    except OSError:
        raise ValueError("no such data set") from None


TRANSFERS: dict[str, Callable[[str], object]] = {
    "urllib": urllib.request.urlopen,
    "http.client": lambda url: http.client.HTTPConnection(url.removeprefix("http://")).request("GET", "/"),
    "aiohttp": lambda url: asyncio.run(_aiohttp(url)),
    "huggingface_hub": lambda url: HfApi(endpoint=url).dataset_info("org/set"),
    "an error that hides its cause": _wrapped,
    "socket": lambda url: socket.create_connection(("127.0.0.1", int(url.rpartition(":")[2]))),
}


@pytest.mark.parametrize("transfer", TRANSFERS.values(), ids=TRANSFERS)
def test_a_server_that_cannot_be_reached_is_a_network_error(transfer: Callable[[str], object]) -> None:
    with pytest.raises(Exception) as raised:
        transfer(f"http://127.0.0.1:{closed_port()}")
    assert is_network_error(raised.value)


@pytest.mark.parametrize(
    "error",
    [
        socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution"),
        ssl.SSLCertVerificationError("self-signed certificate"),
        TimeoutError(),
        http.client.IncompleteRead(b"half"),
        OSError(101, "Network is unreachable"),
        ExceptionGroup("all", [ValueError("one"), ConnectionResetError("two")]),
    ],
    ids=lambda error: type(error).__name__,
)
def test_other_errors_of_transfers_are_network_errors(error: Exception) -> None:
    assert is_network_error(error)


@pytest.mark.parametrize(
    "error", [TypeError("'int' object"), KeyError("rows"), FileNotFoundError(2, "No such file"), OSError(28, "full")]
)
def test_a_mistake_in_a_program_or_a_full_disk_is_no_network_error(error: Exception) -> None:
    assert not is_network_error(error)
