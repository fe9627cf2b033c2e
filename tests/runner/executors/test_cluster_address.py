"""Which cluster this machine is a node of."""

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from proctor.core.errors import InfrastructureError, UsageError
from proctor.runner.executors.cluster_address import find_cluster
from waiting import eventually

ADDRESS = "192.0.2.7:6399"
_PROGRAM = "import sys; sys.stdout.write('ready'); sys.stdout.flush(); sys.stdin.read()"


@pytest.fixture
def raylet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A process that looks like a node of the cluster; returns where its socket is to be."""
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    program = tmp_path / "raylet"
    program.symlink_to(Path(sys.executable).resolve())
    path = Path(os.path.relpath(tmp_path / "socket"))
    words: list[str | Path] = [program, "-c", _PROGRAM, f"--raylet_socket_name={path}", f"--gcs-address={ADDRESS}"]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.read(5) == b"ready"
        assert psutil.Process(process.pid).name() == "raylet"
        yield path
        assert process.stdin is not None
        process.stdin.close()


async def test_a_node_of_this_machine_is_found(raylet: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(raylet))
        await eventually(raylet.is_socket, "the socket")
        assert find_cluster(ADDRESS, insecure=True) == ADDRESS


def test_a_node_in_a_container_is_seen_here_and_is_none_of_this_machine(raylet: Path) -> None:
    assert not raylet.exists()
    with pytest.raises(InfrastructureError, match="this machine is not a node of the cluster") as found:
        find_cluster(ADDRESS, insecure=True)
    assert "ray start --address=192.0.2.7:6399" in found.value.sentence
    assert "not up after 30 s" in found.value.sentence


def test_without_the_engine_it_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(UsageError, match="--executor ray needs Ray, which is not installed") as found:
        find_cluster(None, insecure=True)
    assert "pip install 'proctor[ray]'" in found.value.sentence


def test_what_is_no_address_is_refused() -> None:
    with pytest.raises(UsageError, match="'first' is no cluster's address"):
        find_cluster("first", insecure=True)
