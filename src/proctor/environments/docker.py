"""Environments in containers of a Docker engine."""

import asyncio
import posixpath
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

import msgspec
from aiodocker import Docker

from proctor.core.environment import Environment, EnvironmentProvider, EnvironmentSpec, Network
from proctor.core.errors import InfrastructureError, UsageError
from proctor.core.files import cache_root
from proctor.core.record import Record
from proctor.core.trees import FileEntry
from proctor.environments import docker_unavailable_reason
from proctor.environments.compose_model import MAIN, NO_DNS, image_build
from proctor.environments.docker_build import base_images, build, build_context, build_tag
from proctor.environments.docker_compose import MISSING_PLUGIN, OWN_IMAGE, ComposeProject, compose_version
from proctor.environments.docker_engine import connect, disconnect, engine_errors, own_labels
from proctor.environments.docker_environment import DockerEnvironment
from proctor.environments.docker_model_relay import ModelRelayFactory, host_address
from proctor.environments.docker_network import ContainerNetwork, SharedNetworks
from proctor.environments.gpus import count_host_gpus, device_requests, engine_gpus
from proctor.environments.image_build import ImageBuild
from proctor.environments.images import ImageManager, check_in_registry, inspect_image
from proctor.environments.netns import CannotEnterNamespace, may_enter_namespace

DEFAULT_IMAGE: Final = "python:3.12-bookworm"
# Says that it is there, and ends when its input does, which is when this process does.
_MAIN_COMMAND: Final = ["/bin/sh", "-c", "echo up; while read -r _; do :; done"]
_VARIABLES: Final = {
    "HOME": "/root",
    "LANG": "C.UTF-8",
    "LOGNAME": "root",
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "SHELL": "/bin/sh",
    "TZ": "UTC",
    "USER": "root",
}


BUILDING_STATUS: Final = "Building"
BUILT_STATUS: Final = "Built"


class PullProgress(Record):
    """How far the pull of an image is; `total` is 0 where the engine does not say.

    An image that is built has the folder of its Dockerfile for a name, and the states `BUILDING` and `BUILT` only;
    `layer` is what the build printed last.
    """

    image: str
    status: str
    layer: str
    current: int
    total: int


class DockerProvider(EnvironmentProvider):
    """Makes environments in containers.

    Commands run as root of the container, with the engine's default capabilities: state-graded tasks install
    packages and start services.

    Args:
        url: where the engine is; DOCKER_HOST, the Docker context or the usual socket by default.
        image: for environments that name none.
        private_relay: puts the model gateway on an environment's own loopback, with no network beside it, where this
            process may do so: as root, on the engine's machine. Otherwise environments with network `model` share an
            internal network, on which they reach the gateway, and whatever else listens on all addresses of this host.
        no_new_privileges: keeps set-user-id programs (sudo, su as another user) from gaining rights. Root can do
            without them, so only tasks that work as another user need this to be False.
        image_map: images to use in the place of others, by name, also where a Dockerfile starts from them.
        force_build: builds an image from the task's Dockerfile also where a ready one is named.
        image_disk: how many bytes the images that are pulled may take, beside those that were there before.
        brought: where it is written down which images were pulled; a folder in the cache by default.
        on_pull: called with the progress of a pull or a build.
    """

    name = "docker"
    uses_images = True

    def __init__(
        self,
        *,
        url: str | None = None,
        image: str = DEFAULT_IMAGE,
        private_relay: bool = True,
        no_new_privileges: bool = True,
        image_map: Mapping[str, str] | None = None,
        force_build: bool = False,
        image_disk: int | None = None,
        image_index_dir: Path | None = None,
        on_pull: Callable[[PullProgress], None] | None = None,
    ) -> None:
        self._url = url
        self._image = image
        self._private_relay = private_relay and may_enter_namespace()
        self._no_new_privileges = no_new_privileges
        self._image_map = dict(image_map or {})
        self._force_build = force_build
        self._on_pull = on_pull
        self._client: Docker | None = None
        self._networks = SharedNetworks(self._docker)
        self._build_locks: dict[str, asyncio.Lock] = {}
        self._images = ImageManager(
            self._docker,
            budget=image_disk,
            index_dir=image_index_dir or cache_root() / "images",
            on_progress=self._report_progress,
        )

    async def start(self, spec: EnvironmentSpec) -> DockerEnvironment:
        """Make an environment.

        Raises:
            InfrastructureError: there is no engine, or no such image; says what to do.
            UsageError: the environment is described wrongly.
        """
        _check_spec(spec)
        spec = msgspec.structs.replace(spec, limits=spec.limits.with_defaults())
        holds = [self._images.pin(image) for image in self._images_of(spec)]

        def release() -> None:
            for let_go in holds:
                let_go()

        try:
            environment = await self._make(spec)
        except BaseException:
            release()
            raise
        environment.on_stopped(release)
        return environment

    def prefetch(self, specs: Sequence[EnvironmentSpec]) -> None:
        """See to it that the images of these environments are there when they are needed."""
        self._images.prefetch([image for spec in specs for image in self._images_of(spec)])

    def release(self, spec: EnvironmentSpec) -> None:
        """One piece of the expected work is over, and its image may be let go."""
        for image in self._images_of(spec):
            self._images.release(image)

    def required_images(self, spec: EnvironmentSpec) -> tuple[str, ...]:
        """The ready image, or those that the Dockerfile starts from."""
        folder = self._build_folder(spec)
        return (spec.image or self._image,) if folder is None else base_images(ImageBuild(folder=folder), {})

    async def storage_folders(self) -> Sequence[Path]:
        """Where an engine of this machine keeps images and containers."""
        docker = self._docker()
        with engine_errors("say where its images are"):
            root = Path((await docker.system.info()).get("DockerRootDir") or "/nowhere")
        is_here = docker.docker_host.startswith("unix:") and root.is_dir()  # noqa: ASYNC240 - one look
        return (root,) if is_here else ()

    async def is_available(self, spec: EnvironmentSpec) -> bool:
        """Whether the environment's image is on this machine."""
        return await inspect_image(self._docker(), self._image_of(spec)) is not None

    async def missing_support(self, spec: EnvironmentSpec) -> str | None:
        """The compose plugin, for an environment with services beside it."""
        return MISSING_PLUGIN.sentence if spec.compose is not None and await compose_version() is None else None

    async def unavailable_reason(self, spec: EnvironmentSpec | None = None) -> str | None:
        """Why there is no engine; or why an environment's image can be neither found here nor in its registry."""
        if spec is None:
            return await docker_unavailable_reason(self._url)
        if await self.is_available(spec):
            return None
        try:
            await check_in_registry(self._docker(), self._image_of(spec))
        except InfrastructureError as error:
            return error.sentence
        return None

    async def gpu_count(self) -> int:
        """As many as the engine can give."""
        return engine_gpus(await self._docker().system.info(), host_gpus=count_host_gpus())

    async def pin_files(self, environment: Environment, files: Mapping[str, FileEntry]) -> bool:
        """Lay read-only files over these; it takes root, on the engine's own machine."""
        return isinstance(environment, DockerEnvironment) and await environment.pin_files(files)

    async def digest(self, spec: EnvironmentSpec) -> str:
        """Of the image, by its id; it is pulled if it is not there."""
        described = await self._image_info(self._docker(), spec)
        return f"docker:{described['Id']}"

    async def host_address(self) -> str:
        """The address at which environments with network `model` reach this host, and where a server for them binds."""
        with engine_errors("describe a network"):
            return await host_address(await self._networks.internal())

    async def close(self) -> None:
        """Remove the environments' networks and let the engine go."""
        await self._images.close()
        try:
            with engine_errors("remove the environments' networks"):
                await self._networks.close()
        finally:
            docker, self._client = self._client, None
            if docker is not None:
                await disconnect(docker)

    async def _make(self, spec: EnvironmentSpec) -> DockerEnvironment:
        docker = self._docker()
        if spec.compose is not None:
            return await self._make_with_services(docker, spec, spec.compose)
        described = await self._image_info(docker, spec)
        image = described["Id"]
        digest = f"docker:{described['Id']}"
        if not spec.workdir:
            spec = msgspec.structs.replace(spec, workdir=described.get("Config", {}).get("WorkingDir") or "/")
        user = str(described.get("Config", {}).get("User") or "")
        wants_loopback = spec.model_socket is not None or spec.allowed_hosts or spec.changes_network
        if self._private_relay and wants_loopback and (spec.network is not Network.NONE or spec.changes_network):
            is_open = spec.network is Network.OPEN or spec.changes_network
            inside = None
            if spec.model_socket is not None:
                inside = ModelRelayFactory(spec.model_socket, private=True, network=None)
            network = ContainerNetwork(docker, self._networks, is_open=is_open, private=True)
            mode = await self._networks.open() if is_open else "none"
            try:
                config = self._config(spec, image, described, mode)
                return await DockerEnvironment.make(
                    docker, config, spec, digest=digest, relay_factory=inside, network=network, default_user=user
                )
            except CannotEnterNamespace:
                self._private_relay = False
        mode, relay_factory = await self._network_and_relay(spec)
        config = self._config(spec, image, described, mode)
        is_open = spec.network is Network.OPEN or spec.changes_network
        network = ContainerNetwork(docker, self._networks, is_open=is_open, private=False)
        return await DockerEnvironment.make(
            docker, config, spec, digest=digest, relay_factory=relay_factory, network=network, default_user=user
        )

    async def _make_with_services(self, docker: Docker, spec: EnvironmentSpec, file: Path) -> DockerEnvironment:
        """An environment that is the main service of a compose file, with the others beside it."""
        is_open = spec.network is Network.OPEN
        make_image = partial(self._service_image, docker)
        open_network = await self._networks.open() if is_open else None
        project = await ComposeProject.up(docker, file, spec.labels, make_image, open_network=open_network)
        try:
            spec = await _as_main_service(spec, project, make_image)
            described = await self._image_info(docker, spec)
            if not spec.workdir:
                spec = msgspec.structs.replace(spec, workdir=described.get("Config", {}).get("WorkingDir") or "/")
            first, *others = project.networks
            config = self._config(spec, described["Id"], described, first)
            config["NetworkingConfig"] = {"EndpointsConfig": {first: {"Aliases": [MAIN]}}}
            config["HostConfig"]["Mounts"] += project.mounts
            if not is_open and not spec.changes_network:
                config["HostConfig"]["Dns"] = NO_DNS
            private = self._private_relay
            relay = None
            if spec.model_socket is not None and spec.network is not Network.NONE:
                internal = None if private else await self._networks.internal()
                relay = ModelRelayFactory(spec.model_socket, private=private, network=internal)
            environment = await DockerEnvironment.make(
                docker,
                config,
                spec,
                digest=f"docker:{described['Id']}",
                relay_factory=relay if private else None,
                network=ContainerNetwork(
                    docker, self._networks, is_open=False, private=private, local_names=tuple(project.services)
                ),
                default_user=str(project.main.get("user") or described.get("Config", {}).get("User") or ""),
            )
            await environment.join_services(project, others, None if private else relay)
        except BaseException:
            await asyncio.shield(project.down())
            raise
        environment.another = lambda: self.start(msgspec.structs.replace(spec, mounts=(), model_socket=None))
        return environment

    def _image_of(self, spec: EnvironmentSpec) -> str:
        image = spec.image or self._image
        return self._image_map.get(image, image)

    def _build_folder(self, spec: EnvironmentSpec) -> Path | None:
        """The folder whose Dockerfile makes an environment's image; None where a ready image is used."""
        return spec.build if spec.image is None or self._force_build else None

    def _images_of(self, spec: EnvironmentSpec) -> tuple[str, ...]:
        """The images that an environment needs, from wherever they come."""
        folder = self._build_folder(spec)
        return (self._image_of(spec),) if folder is None else base_images(ImageBuild(folder=folder), self._image_map)

    def _docker(self) -> Docker:
        if self._client is None:
            self._client = connect(self._url)
        return self._client

    async def _image_info(self, docker: Docker, spec: EnvironmentSpec) -> dict[str, Any]:
        """The engine's description of the image that an environment is made from, which is built or pulled if need
        be.
        """
        folder = self._build_folder(spec)
        if folder is None:
            return await self._ready_image(spec)
        return await self._build_image(docker, ImageBuild(folder=folder))

    async def _build_image(self, docker: Docker, made: ImageBuild) -> dict[str, Any]:
        context = await asyncio.to_thread(build_context, made, self._image_map)
        bases = base_images(made, self._image_map)
        tag = build_tag(context, [str((await self._images.ensure(base))["Id"]) for base in bases], made)
        async with self._build_locks.setdefault(tag, asyncio.Lock()):
            known = await inspect_image(docker, tag)
            if known is not None:
                return known
            name = str(made.folder)
            self._report_progress(name, {"status": BUILDING_STATUS})
            await build(
                docker,
                made,
                context,
                tag,
                on_step=lambda line: self._report_progress(name, {"status": BUILDING_STATUS, "id": line}),
            )
            self._report_progress(name, {"status": BUILT_STATUS})
            built = await self._images.ensure(tag)
            await self._images.record_build(built, bases)
            return built

    async def _service_image(self, docker: Docker, made: ImageBuild | str) -> str:
        """The engine's name of the image of a service, which is built or pulled if need be."""
        if isinstance(made, ImageBuild):
            return str((await self._build_image(docker, made))["Id"])
        return str((await self._images.ensure(self._image_map.get(made, made)))["Id"])

    async def _ready_image(self, spec: EnvironmentSpec) -> dict[str, Any]:
        try:
            return await self._images.ensure(self._image_of(spec))
        except InfrastructureError as error:
            if spec.build is None:
                raise
            fix = f"build it with --force-build, or {error.fix}" if error.fix else "build it with --force-build"
            raise InfrastructureError(error.what, where=error.where, fix=fix, details=error.details) from error

    def _report_progress(self, image: str, step: dict[str, Any]) -> None:
        if self._on_pull is None:
            return
        detail = step.get("progressDetail") or {}
        self._on_pull(
            PullProgress(
                image=image,
                status=str(step.get("status", "")),
                layer=str(step.get("id", "")),
                current=int(detail.get("current", 0)),
                total=int(detail.get("total", 0)),
            )
        )

    async def _network_and_relay(self, spec: EnvironmentSpec) -> tuple[str, ModelRelayFactory | None]:
        if spec.network is Network.NONE and not spec.changes_network:
            return "none", None
        network = None
        if spec.network is Network.MODEL and not spec.changes_network:
            network = await self._networks.internal()
        relay_factory = None
        if spec.model_socket is not None:
            relay_factory = ModelRelayFactory(spec.model_socket, private=False, network=network)
        return network.id if network else await self._networks.open(), relay_factory

    def _config(self, spec: EnvironmentSpec, image: str, image_info: dict[str, Any], network: str) -> dict[str, Any]:
        """The container configuration sent to the engine."""
        limits = spec.limits
        own = dict(entry.partition("=")[::2] for entry in image_info.get("Config", {}).get("Env") or [])
        ulimits = [{"Name": "core", "Soft": 0, "Hard": 0}]
        if limits.disk_mb is not None:
            size = limits.disk_mb << 20
            ulimits.append({"Name": "fsize", "Soft": size, "Hard": size})
        host: dict[str, Any] = {
            "Init": True,
            "NetworkMode": network,
            "LogConfig": {"Type": "none"},
            "Ulimits": ulimits,
            "SecurityOpt": ["no-new-privileges"] if self._no_new_privileges else [],
            "Mounts": [
                {"Type": "bind", "Source": mount.source, "Target": mount.target, "ReadOnly": not mount.writable}
                for mount in spec.mounts
            ],
        }
        if limits.memory_mb is not None:
            host["Memory"] = host["MemorySwap"] = limits.memory_mb << 20
        if limits.processes is not None:
            host["PidsLimit"] = limits.processes
        if limits.cpus is not None:
            host["NanoCpus"] = int(limits.cpus * 1e9)
        if limits.gpus:
            host["DeviceRequests"] = device_requests(limits.gpus)
        return {
            "Image": image,
            "Entrypoint": [],
            "Cmd": _MAIN_COMMAND,
            "User": "0:0",
            "Hostname": "localhost",
            "WorkingDir": spec.workdir,
            "Env": [f"{name}={value}" for name, value in (_VARIABLES | own | spec.variables).items()],
            "OpenStdin": True,
            "StdinOnce": True,
            "AttachStdin": True,
            "AttachStdout": True,
            "Labels": own_labels(spec.labels),
            "HostConfig": host,
        }


async def _as_main_service(
    spec: EnvironmentSpec, project: ComposeProject, make_image: Callable[[ImageBuild], Awaitable[str]]
) -> EnvironmentSpec:
    """The environment with what its compose file says of its main service: an image of its own, its variables."""
    main = project.main
    made, image = image_build(main), main.get("image")
    if made is not None:
        spec = msgspec.structs.replace(spec, image=await make_image(made), build=None)
    elif image and image != OWN_IMAGE:
        spec = msgspec.structs.replace(spec, image=str(image), build=None)
    return msgspec.structs.replace(
        spec,
        variables={**project.variables, **spec.variables},
        workdir=spec.workdir or str(main.get("working_dir") or ""),
    )


def _check_spec(spec: EnvironmentSpec) -> None:
    if spec.workspace is not None and not spec.workspace.is_dir():
        raise UsageError("the workspace is not a directory", where=spec.workspace)
    if spec.workspace is None and spec.workdir in {"", "/"}:
        pass
    elif not spec.workdir.startswith("/") or spec.workdir == "/" or posixpath.normpath(spec.workdir) != spec.workdir:
        raise UsageError(f"an environment's workdir must be a plain absolute path, not {spec.workdir!r}")
    for mount in spec.mounts:
        if not Path(mount.source).exists():
            raise UsageError("cannot be shown in an environment: there is no such path", where=mount.source)
        if mount.private:
            raise UsageError("a container has no mounts that are written to in private", where=mount.target)
