"""What a container can reach, changed while it runs: the world, the model gateway alone, or allowed hosts.

A container on the open network reaches whatever its host does. Off it, it has its loopback, on which the model gateway
and the proxy for allowed hosts listen; where this process cannot listen there, they are reached over the internal
network. On neither do containers reach each other.
"""

import asyncio
import socket
from collections.abc import Callable, Sequence
from typing import Any, Final

from aiodocker import Docker, DockerError
from aiodocker.containers import DockerContainer
from aiodocker.networks import DockerNetwork

from proctor.core.environment import Network
from proctor.core.errors import InfrastructureError
from proctor.environments.allowlist_proxy import AllowlistProxy
from proctor.environments.docker_engine import OWNER_LABEL, engine_errors, own_labels
from proctor.environments.docker_model_relay import ModelRelayFactory, host_address
from proctor.environments.netns import listen_inside

PROXY_PORT: Final = 4011
_PROXY_VARIABLES: Final = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy")
_LOCAL_HOSTS: Final = "localhost,127.0.0.1,::1"


class SharedNetworks:
    """The networks that all containers of one provider share: the engine has addresses for some thirty only.

    They are made when they are first asked for.

    Args:
        engine: gives the engine.
    """

    def __init__(self, engine: Callable[[], Docker]) -> None:
        self._engine = engine
        self._made: dict[str, DockerNetwork] = {}
        self._lock = asyncio.Lock()

    async def internal(self) -> DockerNetwork:
        """The one without a way out; containers on it reach this host."""
        return await self._get("internal", Internal=True)

    async def open(self) -> str:
        """The id of the one that leads wherever the engine's own bridge does."""
        return str((await self._get("open", Internal=False)).id)

    async def close(self) -> None:
        """Remove them; no container is on them any more."""
        made, self._made = self._made, {}
        for network in made.values():
            await network.delete()

    async def _get(self, kind: str, **settings: bool) -> DockerNetwork:
        async with self._lock:
            if kind not in self._made:
                labels = own_labels({})
                with engine_errors("make the environments' network"):
                    self._made[kind] = await self._engine().networks.create(
                        {
                            "Name": f"proctor-{kind}-{id(self):x}-{labels[OWNER_LABEL].split(' ')[2]}",
                            "Driver": "bridge",
                            "Labels": labels,
                            "Options": {"com.docker.network.bridge.enable_icc": "false"},
                            **settings,
                        }
                    )
            return self._made[kind]


class ContainerNetwork:
    """The network of one container.

    Args:
        docker: the engine.
        shared: the networks that it may be on.
        is_open: it was started on the open network.
        private: this process can listen on the container's own loopback.
        local_names: hosts that are reached without the proxy.
    """

    def __init__(
        self, docker: Docker, shared: SharedNetworks, *, is_open: bool, private: bool, local_names: Sequence[str] = ()
    ) -> None:
        self._docker = docker
        self._shared = shared
        self._is_open = self._starts_open = is_open
        self._private = private
        self._on_internal = False
        self._local = ",".join((_LOCAL_HOSTS, *local_names))
        self._proxy: AllowlistProxy | None = None
        self._refused: dict[str, None] = {}

    @property
    def variables(self) -> dict[str, str]:
        """What tells programs of the proxy, while there is one."""
        if self._proxy is None:
            return {}
        return {**dict.fromkeys(_PROXY_VARIABLES, self._proxy.url), "NO_PROXY": self._local, "no_proxy": self._local}

    @property
    def refused(self) -> tuple[str, ...]:
        """The hosts that were refused, in all phases."""
        now = self._proxy.refused if self._proxy is not None else ()
        return tuple(dict.fromkeys((*self._refused, *now)))

    async def change(self, container: DockerContainer, network: Network, allowed_hosts: Sequence[str]) -> None:
        """Let a running container reach this from now on."""
        await self.close()
        with engine_errors("change a container's network"):
            is_open = network is Network.OPEN
            if is_open is not self._is_open:
                await self._attach(container, await self._shared.open(), attach=is_open)
                self._is_open = is_open
            if not self._private and not is_open and network is not Network.NONE and not self._on_internal:
                await self._attach(container, (await self._shared.internal()).id, attach=True)
                self._on_internal = True
        if allowed_hosts and not is_open:
            await self._open_proxy(container, allowed_hosts)

    def another(self) -> "ContainerNetwork":
        """That of another container, which was started in the same way."""
        made = ContainerNetwork(self._docker, self._shared, is_open=self._starts_open, private=self._private)
        made._local = self._local
        return made

    async def relay_factory(self, factory: ModelRelayFactory, network: Network) -> ModelRelayFactory:
        """What opens the relay to the gateway where a container on this network reaches it."""
        internal = await self._shared.internal() if not self._private and network is Network.MODEL else None
        return ModelRelayFactory(factory.path, private=False, network=internal)

    async def close(self) -> None:
        """End the proxy; what it refused stays known."""
        proxy, self._proxy = self._proxy, None
        if proxy is not None:
            self._refused |= dict.fromkeys(proxy.refused)
            await proxy.close()

    async def _open_proxy(self, container: DockerContainer, allowed_hosts: Sequence[str]) -> None:
        proxy = AllowlistProxy(allowed_hosts)
        await proxy.serve(await self._listener(container))
        self._proxy = proxy

    async def _listener(self, container: DockerContainer) -> socket.socket:
        if self._private:
            pid = int((await container.show())["State"]["Pid"])
            return await asyncio.to_thread(listen_inside, pid, container.id, PROXY_PORT)
        address = await host_address(await self._shared.internal())
        try:
            return socket.create_server((address, 0))
        except OSError as error:
            raise InfrastructureError(
                f"containers cannot reach the proxy for allowed hosts through {address}: {error.strerror}",
                fix="use a Docker engine on this machine",
            ) from error

    async def _attach(self, container: DockerContainer, network: str, *, attach: bool) -> None:
        call = "connect" if attach else "disconnect"
        body: dict[str, Any] = {"Container": container.id} if attach else {"Container": container.id, "Force": True}
        try:
            await self._docker._query_json(f"networks/{network}/{call}", method="POST", data=body)  # noqa: SLF001 - the library asks for the network first
        except DockerError as error:
            if "already exists" in error.message or "is not connected" in error.message:
                return
            raise
