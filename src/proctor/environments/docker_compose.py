"""The services that run beside an environment, through the engine's compose plugin.

The main service is an environment like any other, made by us and put on the project's networks; the plugin makes the
rest. Its networks lead nowhere; a service that may reach the world is attached to the open network beside them.
"""

import asyncio
import json
import os
import re
import secrets
import shutil
import tempfile
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, Final

from aiodocker import Docker
from aiodocker.containers import DockerContainer

from proctor.core.causes import Cause
from proctor.core.errors import InfrastructureError, InvalidData
from proctor.core.user_files import parse_document, parse_yaml
from proctor.environments.compose_model import (
    ISOLATED_BRIDGE,
    MAIN,
    compose_problems,
    image_build,
    main_networks,
    main_variables,
    main_volumes,
    other_services,
)
from proctor.environments.docker_engine import engine_errors, own_labels
from proctor.environments.image_build import ImageBuild

_UP_SECONDS: Final = 600.0
_DOWN_SECONDS: Final = 120.0
# What is shown of the plugin's own output, and of that of services which do not start.
_PROGRESS: Final = re.compile(r"(Container|Network|Volume) \S+\s+[A-Z][a-z]+")
_SHOWN_LINES: Final = "3"
_MAX_LINES: Final = 5
_MAX_SHOWN: Final = 400
# Nothing else of this process is shown to the file, which may name variables.
_KEPT_VARIABLES: Final = ("PATH", "HOME", "DOCKER_HOST", "DOCKER_CONFIG", "DOCKER_CONTEXT", "XDG_RUNTIME_DIR")
OWN_IMAGE: Final = "proctor-task"
MISSING_PLUGIN: Final = InfrastructureError(
    "the compose plugin of Docker is not installed, which runs tasks with several containers",
    fix="install docker-compose-plugin, so that `docker compose version` works",
    cause=Cause.NOT_RUNNABLE_HERE,
)


async def compose_version() -> str | None:
    """The version of the plugin; None: there is none."""
    if shutil.which("docker") is None:
        return None
    try:
        return (await _docker("compose", "version", "--short", seconds=30)).strip() or None
    except InfrastructureError:
        return None


class ComposeProject:
    """The services of one environment, while they run."""

    def __init__(self, docker: Docker, name: str, folder: Path, model: dict[str, Any]) -> None:
        self._docker = docker
        self.name = name
        self._folder = folder
        self._model = model
        self._containers: dict[str, DockerContainer] = {}

    @classmethod
    async def up(
        cls,
        docker: Docker,
        file: Path,
        labels: Mapping[str, str],
        make_image: Callable[[ImageBuild | str], Awaitable[str]],
        *,
        open_network: str | None,
    ) -> "ComposeProject":
        """Start every service but the main one, and wait until they are healthy; when this fails, nothing is left.

        Args:
            docker: the engine.
            file: the compose file.
            labels: of all that is made.
            make_image: sees to it that an image is there, built or ready; its name on the engine.
            open_network: by which services reach the world; None: they do not.

        Raises:
            InvalidData: the file asks for what no environment may have.
            InfrastructureError: there is no plugin, or a service does not start.
        """
        if await compose_version() is None:
            raise MISSING_PLUGIN
        name = f"proctor-{secrets.token_hex(6)}"
        scratch = Path(tempfile.mkdtemp(prefix="proctor-compose-"))
        project = cls(docker, name, scratch, {})
        try:
            # What is read from elsewhere while the file is resolved is not seen afterwards.
            _check(parse_document(file, "it", parse_yaml, "YAML", error=InvalidData), file)
            project._model = await project._resolve(file)
            _check(project._model, file)
            await project._start(own_labels(labels), make_image, open_network)
        except BaseException:
            await asyncio.shield(project.down())
            raise
        return project

    @property
    def networks(self) -> list[str]:
        """The engine's names of the networks that the main service is on."""
        return [f"{self.name}_{network}" for network in main_networks(self._model)]

    @property
    def mounts(self) -> list[dict[str, Any]]:
        """What the main service shares with others."""
        return main_volumes(self._model, self.name)

    @property
    def variables(self) -> dict[str, str]:
        """Those of the main service."""
        return main_variables(self._model)

    @property
    def main(self) -> dict[str, Any]:
        """The main service, as the file has it."""
        return self._model["services"].get(MAIN) or {}

    @property
    def services(self) -> dict[str, DockerContainer]:
        """The containers of the other services, by name."""
        return self._containers

    async def down(self) -> None:
        """Remove all that was made, volumes and networks too."""
        try:
            if (self._folder / "compose.json").exists():
                await self._compose("down", "--volumes", "--remove-orphans", "--timeout", "1", seconds=_DOWN_SECONDS)
        finally:
            await asyncio.to_thread(shutil.rmtree, self._folder, ignore_errors=True)

    async def _resolve(self, file: Path) -> dict[str, Any]:
        """The file as the plugin reads it. Its main service may name no image: the task's own is meant."""
        own = self._folder / "main.json"
        own.write_text(json.dumps({"services": {MAIN: {"image": OWN_IMAGE}}}), encoding="utf-8")
        words = ("compose", "--project-name", self.name, "--project-directory", str(file.parent))
        found = await _docker(*words, "--file", str(own), "--file", str(file), "config", "--format", "json")
        model: dict[str, Any] = json.loads(found)
        return model

    async def _start(
        self,
        labels: dict[str, str],
        make_image: Callable[[ImageBuild | str], Awaitable[str]],
        open_network: str | None,
    ) -> None:
        images = {
            name: await make_image(image_build(service) or str(service["image"]))
            for name, service in self._model["services"].items()
            if name != MAIN
        }
        others = other_services(self._model, labels, images, is_open=open_network is not None)
        (self._folder / "compose.json").write_text(json.dumps(others), encoding="utf-8")
        if others["services"]:
            await self._compose("create", "--no-build", "--pull", "never")
            self._containers = await self._find_containers()
        await self._make_networks(labels)
        if open_network is not None:
            for container in self._containers.values():
                with engine_errors("attach a service to the open network"):
                    await self._docker._query_json(  # noqa: SLF001 - the library asks for the network first
                        f"networks/{open_network}/connect", method="POST", data={"Container": container.id}
                    )
        if others["services"]:
            try:
                await self._compose("up", "--detach", "--no-build", "--no-recreate", "--wait")
            except InfrastructureError as error:
                said = await self._compose("logs", "--no-color", "--tail", _SHOWN_LINES, seconds=_DOWN_SECONDS)
                raise InfrastructureError(f"{error}; services printed: {_shown(said) or 'nothing'}") from error

    async def _make_networks(self, labels: dict[str, str]) -> None:
        """Those that no service but the main one is on, which the plugin does not make."""
        known = {network["Name"] for network in await self._docker.networks.list()}
        for name in self.networks:
            if name not in known:
                with engine_errors("make a network"):
                    config = {"Name": name, "Driver": "bridge", "Internal": True, "Options": ISOLATED_BRIDGE}
                    project = {"com.docker.compose.project": self.name}
                    await self._docker.networks.create({**config, "Labels": {**labels, **project}})

    async def _find_containers(self) -> dict[str, DockerContainer]:
        filters = json.dumps({"label": [f"com.docker.compose.project={self.name}"]})
        with engine_errors("list the services"):
            found = await self._docker.containers.list(all="true", filters=filters)
        return {str(one["Labels"]["com.docker.compose.service"]): one for one in found}

    async def _compose(self, *words: str, seconds: float = _UP_SECONDS) -> str:
        file = self._folder / "compose.json"
        return await _docker("compose", "--project-name", self.name, "--file", str(file), *words, seconds=seconds)


async def _docker(*words: str, seconds: float = _UP_SECONDS) -> str:
    """What a command of the engine's client prints.

    Raises:
        InfrastructureError: it fails; says how.
    """
    kept = {name: os.environ[name] for name in _KEPT_VARIABLES if name in os.environ}
    process = await asyncio.create_subprocess_exec(
        "docker",
        *words,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=kept,
    )
    try:
        out, error = await asyncio.wait_for(process.communicate(), seconds)
    except (TimeoutError, asyncio.CancelledError) as ended:
        process.kill()
        await process.wait()
        if isinstance(ended, asyncio.CancelledError):
            raise
        raise InfrastructureError(f"docker {words[0]} was not done after {seconds:.0f} s") from ended
    if process.returncode != 0:
        said = _shown(error.decode("utf-8", "replace")) or f"it ended with {process.returncode}"
        raise InfrastructureError(f"the compose plugin could not start the services: {said}")
    return out.decode("utf-8", "replace")


def _shown(output: str) -> str:
    """The end of what the plugin printed, in one line, without its progress."""
    lines = [line.strip() for line in output.splitlines()]
    return " ".join([line for line in lines if line and not _PROGRESS.fullmatch(line)][-_MAX_LINES:])[-_MAX_SHOWN:]


def _check(model: Any, file: Path) -> None:
    problems = compose_problems(model if isinstance(model, dict) else {}, file.parent)
    if problems:
        raise InvalidData(f"it needs {'; '.join(dict.fromkeys(problems))}", where=file)
