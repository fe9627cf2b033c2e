"""What a container's checkpoint keeps beside its image: the files of its volumes, and how it finds its services.

An image has neither: volumes are not part of it, and the files that say where names lead are the engine's, which a
container shares with all that are on its network. There the agent could give a service's name to a server of its own.
"""

import asyncio
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from proctor.core.environment import MAX_COPY_BYTES
from proctor.core.errors import InfrastructureError, LimitReached

if TYPE_CHECKING:
    from proctor.environments.docker_environment import DockerEnvironment

_HOSTS: Final = "/etc/hosts"
_RESOLV: Final = "/etc/resolv.conf"


def volumes(described: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The volumes of a container that can be written to."""
    return [one for one in described.get("Mounts") or () if one.get("Type") == "volume" and one.get("RW")]


class VolumeFiles:
    """The files of volumes at one moment, in a folder of this machine.

    Args:
        names: what the engine's files said of names before anybody worked there, by their paths inside.
    """

    def __init__(self, names: Mapping[str, str]) -> None:
        self._names = dict(names)
        self._folder = Path(tempfile.mkdtemp(prefix="proctor-volumes-"))
        self._kept: dict[str, Path] = {}

    async def keep(self, environment: "DockerEnvironment", described: Mapping[str, Any]) -> None:
        """Keep the files of all volumes; one that is larger than may be copied is left out."""
        for number, one in enumerate(volumes(described)):
            target = self._folder / str(number)
            try:
                await environment.get(one["Destination"], target, max_bytes=MAX_COPY_BYTES)
            except (LimitReached, FileNotFoundError, InfrastructureError):
                continue
            self._kept[one["Destination"]] = target

    async def put_into(self, copied: "DockerEnvironment") -> None:
        """Put them where they were."""
        for place, files in self._kept.items():
            await copied.put(files, place)

    def name_files(self, described: Mapping[str, Any], services: Sequence[str]) -> dict[str, str]:
        """Files of this machine for a copy to find names by, by their paths inside; none where none is to be trusted.

        What the container has added for names that are no services' stays.
        """
        if not services or not self._names:
            return {}
        current = _read(described.get("HostsPath"))
        before = self._names[_HOSTS].splitlines()
        own = [
            line
            for line in current.splitlines()
            if line not in before and not {word.lower() for word in line.split("#")[0].split()[1:]} & {*services}
        ]
        texts = {**self._names, _HOSTS: "\n".join([*before, *own]) + "\n"}
        found = {}
        for place, text in texts.items():
            file = self._folder / f"names{place.replace('/', '-')}"
            file.write_text(text, encoding="utf-8")
            found[place] = str(file)
        return found

    async def remove(self) -> None:
        """Remove what was kept."""
        await asyncio.to_thread(shutil.rmtree, self._folder, ignore_errors=True)


def read_name_files(described: Mapping[str, Any]) -> dict[str, str]:
    """What the engine's files of a container say of names; nothing where they are not on this machine."""
    found = {_HOSTS: _read(described.get("HostsPath")), _RESOLV: _read(described.get("ResolvConfPath"))}
    return found if all(found.values()) else {}


def _read(path: Any) -> str:
    try:
        return Path(str(path)).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
