"""Which cluster this machine is a node of, and whether it lets in whoever reaches it: before the engine is imported."""

import os
import re
import socket
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Final

import psutil

from proctor.core.errors import InfrastructureError, UsageError

_INSTALL: Final = "install it on every node with: pip install 'proctor[ray]'"
_CURRENT_CLUSTER: Final = Path("/tmp/ray/ray_current_cluster")  # noqa: S108 - where the engine keeps it
_ADDRESS: Final = re.compile(r"\S+:\d+")
_CHECK_SECONDS: Final = 30.0


def find_cluster(address: str | None, *, insecure: bool) -> str:
    """The address of the cluster that this machine is a node of.

    Raises:
        InfrastructureError: it is a node of none, or of another one than this.
        UsageError: the engine is not installed, or the cluster lets in whoever reaches it.
    """
    found = _cluster_here(address)
    if not insecure:
        _check_token(found)
    return found


def _check_installed() -> None:
    """See that the engine is installed, without importing it.

    Raises:
        UsageError: it is not.
    """
    from importlib.util import find_spec

    if find_spec("ray") is None:
        raise UsageError("--executor ray needs Ray, which is not installed", fix=_INSTALL)


def _cluster_here(address: str | None) -> str:
    """The address of the cluster that this machine is a node of.

    The engine ends the whole process where it is asked to join from a machine that is no node, so that this is found
    out before.
    """
    _check_installed()
    wanted = address or os.environ.get("RAY_ADDRESS") or None
    if wanted not in {None, "auto"} and not _ADDRESS.fullmatch(wanted):
        raise UsageError(f"{wanted!r} is no cluster's address", fix="give HOST:PORT, as in --address first:6379")
    here = [found for process in psutil.process_iter(["name", "cmdline"]) if (found := _cluster_of(process))]
    if wanted in {None, "auto"} and here:
        try:
            last = _CURRENT_CLUSTER.read_text().strip()
        except OSError:
            last = ""
        return last if last in here else here[0]
    if wanted is not None and any(_same_address(wanted, one) for one in here):
        return wanted
    there = "any cluster" if wanted in {None, "auto"} else f"the cluster at {wanted}"
    start = "HOST:6379" if wanted in {None, "auto"} else wanted
    raise InfrastructureError(
        f"this machine is not a node of {there}",
        fix=f"start one here first, with: ray start --address={start} (a head: ray start --head); a node that was not "
        "up after 30 s has given up: start it again, when the machine is less busy",
    )


def _cluster_of(process: psutil.Process) -> str | None:
    """The address of the cluster whose node this process is, if it is one.

    Nodes in containers are seen from their host, which is none itself: there is no way to their sockets from it.
    """
    if process.info["name"] != "raylet":
        return None
    words = process.info["cmdline"] or ()
    values = {name: value for name, _, value in (word.partition("=") for word in words)}
    is_here = Path(values.get("--raylet_socket_name", "/nowhere")).is_socket()
    return values.get("--gcs-address") if is_here else None


def _same_address(one: str, other: str) -> bool:
    host, _, port = one.rpartition(":")
    other_host, _, other_port = other.rpartition(":")
    if port != other_port:
        return False
    try:
        return host == other_host or socket.gethostbyname(host) == socket.gethostbyname(other_host)
    except OSError:
        return False


@cache
def _check_token(address: str) -> None:
    """See that the cluster refuses whoever has no token; ours is shown to it from now on.

    Raises:
        UsageError: it does not.
    """
    # In a process of its own: how the engine authenticates is fixed when it is first used.
    program = (
        "import sys; from ray._raylet import GcsClient;"
        " GcsClient(address=sys.argv[1]).internal_kv_get(b'proctor', None, timeout=10); print('open')"
    )
    variables = {name: value for name, value in os.environ.items() if not name.startswith("RAY_AUTH")}
    try:
        found = subprocess.run(
            [sys.executable, "-c", program, address],
            env={**variables, "RAY_AUTH_MODE": "disabled"},
            capture_output=True,
            timeout=_CHECK_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return  # it does not answer; joining it says so
    if b"open" in found.stdout:
        raise UsageError(
            "the cluster has no token: whoever reaches it can run programs on its nodes and read the model's key",
            where=address,
            fix="start its nodes with RAY_AUTH_MODE=token and the same token, or give --insecure-cluster",
        )
    if not os.environ.get("RAY_AUTH_MODE"):
        os.environ["RAY_AUTH_MODE"] = "token"  # read when the engine is imported
