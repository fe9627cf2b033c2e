"""How the model gateway's socket becomes an address in a container."""

import asyncio
from pathlib import Path
from typing import Any, Final

from aiodocker.containers import DockerContainer
from aiodocker.networks import DockerNetwork

from proctor.core.errors import InfrastructureError
from proctor.environments.host_relay import HostRelay
from proctor.environments.netns import listen_inside

MODEL_PORT: Final = 4010


class ModelRelayFactory:
    """Opens a relay to the gateway for a container that has just started.

    Args:
        path: the gateway's unix socket.
        private: on the container's own loopback; otherwise at the host's address on its network.
        network: the internal network that the container is on, if it is.

    Attributes:
        path, private: as given.
    """

    def __init__(self, path: Path, *, private: bool, network: DockerNetwork | None) -> None:
        self.path = path
        self.private = private
        self._network = network

    async def open(self, container: DockerContainer) -> HostRelay:
        """A relay that listens.

        Raises:
            CannotEnter: the container's network is out of our reach.
            InfrastructureError: its host is not this machine.
        """
        described = await container.show()
        relay = HostRelay(self.path)
        if self.private:
            process = described["State"]["Pid"]
            listener = await asyncio.to_thread(listen_inside, process, container.id, MODEL_PORT)
            await relay.serve(listener)
        else:
            await relay.listen(await self._host_address(described))
        return relay

    async def _host_address(self, container_info: dict[str, Any]) -> str:
        if self._network is not None:
            return await host_address(self._network)
        for attached in container_info["NetworkSettings"]["Networks"].values():
            if attached.get("Gateway"):
                return str(attached["Gateway"])
        raise InfrastructureError("the container has no network on which it could reach the model gateway")


async def host_address(network: DockerNetwork) -> str:
    """The host's own address on a network."""
    described = await network.show()
    for config in described.get("IPAM", {}).get("Config") or []:
        if config.get("Gateway"):
            return str(config["Gateway"])
    raise InfrastructureError("the Docker engine's network has no address on this host", where=described.get("Name"))
