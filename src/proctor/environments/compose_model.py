"""Compose files: what no environment may have of them, and what becomes of the rest.

The file is a task's, and is run by the engine, which may do all on its machine. So what leads out of the containers is
refused, and every service is labelled and limited as our own containers are.
"""

import posixpath
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from proctor.core.environment import DEFAULT_MEMORY_MB, DEFAULT_PROCESSES
from proctor.environments.image_build import ImageBuild

MAIN: Final = "main"
# Where an engine finds no server for names of the world. Without it, engines before 26 ask their own machine's, also
# for containers whose networks lead nowhere (CVE-2024-29018).
NO_DNS: Final = ["127.0.0.1"]
# A bridge without an address of this machine, whose servers would be reached at it.
ISOLATED_BRIDGE: Final = {"com.docker.network.bridge.inhibit_ipv4": "true"}
# What a service may say of itself. A key that is in neither list is refused: those of newer versions of compose start
# programs on this machine (`provider`), or show the engine's socket to a container (`use_api_socket`).
_KEPT: Final = frozenset(
    """build cap_drop command cpu_count cpu_percent cpu_period cpu_quota cpu_shares cpus cpuset depends_on dns dns_opt
    dns_search domainname entrypoint env_file environment expose extra_hosts group_add healthcheck hostname image init
    ipc labels mem_limit mem_reservation memswap_limit network_mode networks pid pids_limit platform profiles
    pull_policy read_only shm_size stdin_open stop_grace_period stop_signal tmpfs tty ulimits user uts volumes
    working_dir""".split()  # noqa: SIM905 - names read best as words
)
_DROPPED: Final = frozenset(
    """annotations attach container_name deploy develop external_links links logging mac_address mem_swappiness
    oom_kill_disable oom_score_adj ports restart scale stop_timeout""".split()  # noqa: SIM905 - likewise
)
_TOP_LEVEL: Final = frozenset({"name", "version", "services", "networks", "volumes"})
_NAMESPACES: Final = ("network_mode", "pid", "ipc", "uts")
_OUTSIDE: Final = ("host", "container:")
_BUILD_KEYS: Final = frozenset({"context", "dockerfile", "dockerfile_inline", "args", "target"})
# They say how the engine is to go about it, and nothing of what the image is.
_BUILD_IGNORED: Final = frozenset({"cache_from", "cache_to", "labels", "no_cache", "pull", "tags"})
_UNITS: Final = {"k": 1 << 10, "m": 1 << 20, "g": 1 << 30}


def compose_problems(model: Mapping[str, Any], folder: Path) -> list[str]:
    """What a compose file asks for and no environment may have; a few words each."""
    services = model.get("services")
    if not isinstance(services, dict) or not services:
        return ["a compose file with services"]
    found = [f"{key} of compose" for key in model if _is_named(key, model) and key not in _TOP_LEVEL]
    found += [problem for name, service in services.items() for problem in _service_problems(name, service, folder)]
    for kind in ("networks", "volumes"):
        entries = model.get(kind) or {}
        if not isinstance(entries, dict):
            found.append(f"{kind} that are a table")
            continue
        for name, entry in entries.items():
            if isinstance(entry, dict) and (entry.get("external") or (entry.get("driver_opts") and kind == "volumes")):
                found.append(f"{kind[:-1]} {name} of its engine (external or with driver_opts)")
    return found


def _is_named(key: str, table: Mapping[str, Any]) -> bool:
    """Whether a key says something: extensions (`x-…`) and empty values do not."""
    return not str(key).startswith("x-") and bool(table[key])


def _service_problems(name: str, service: Any, folder: Path) -> Iterator[str]:
    if not isinstance(service, dict):
        yield f"service {name} that is a table"
        return
    yield from (
        f"{key} for the service {name}" for key in service if _is_named(key, service) and key not in _KEPT | _DROPPED
    )
    for key in _NAMESPACES:
        value = str(service.get(key) or "")
        if value.startswith(_OUTSIDE) or (key == "network_mode" and value and value != "none"):
            yield f"{key} {value} for the service {name}"
    volumes = service.get("volumes") or []
    if not isinstance(volumes, list):
        yield f"volumes of the service {name} that are a list"
        return
    for volume in volumes:
        source = _bind_source(volume)
        if source is not None and not _is_inside(folder, source):
            yield f"the folder {source} of this machine for the service {name}"
    for file in _env_files(service.get("env_file")):
        if "$" in file or not _is_inside(folder, file):
            yield f"the variables in {file} of this machine for the service {name}"
    if service.get("build"):
        yield from _build_problems(name, service["build"], folder)


def _build_problems(name: str, build: Any, folder: Path) -> Iterator[str]:
    table = build if isinstance(build, dict) else {"context": build}
    context, file = str(table.get("context") or "."), str(table.get("dockerfile") or "Dockerfile")
    if "://" in context or not _is_inside(folder, context):
        yield f"a build from {context} for the service {name}"
    elif not _is_inside(folder, posixpath.join(context, file)):
        yield f"a build with {file} for the service {name}"
    for key in table:
        if _is_named(key, table) and key not in _BUILD_KEYS | _BUILD_IGNORED:
            yield f"{key} for the build of the service {name}"


def _env_files(value: Any) -> list[str]:
    entries = value if isinstance(value, list) else [value] if value else []
    return [str(entry.get("path", "")) if isinstance(entry, dict) else str(entry) for entry in entries]


def _bind_source(volume: Any) -> str | None:
    """The path of this machine that a volume shows; None: it is a volume of the engine."""
    if isinstance(volume, dict):
        return str(volume.get("source")) if volume.get("type") == "bind" else None
    source = str(volume).split(":")[0]
    return source if source.startswith((".", "/", "~", "$")) and ":" in str(volume) else None


def _is_inside(folder: Path, path: str) -> bool:
    root = folder.resolve()
    return (root / path).resolve().is_relative_to(root)


def image_build(service: Mapping[str, Any]) -> ImageBuild | None:
    """How the image of a service is built; None: a ready one is named."""
    build = service.get("build")
    if not build:
        return None
    args = {name: str(value) for name, value in _as_table(build.get("args")).items() if value is not None}
    return ImageBuild(
        folder=Path(str(build["context"])),
        dockerfile=str(build.get("dockerfile") or "Dockerfile"),
        text=build.get("dockerfile_inline"),
        target=str(build.get("target") or ""),
        args=args,
    )


def other_services(
    model: Mapping[str, Any], labels: Mapping[str, str], images: Mapping[str, str], *, is_open: bool
) -> dict[str, Any]:
    """The project without its main service: labelled, limited, and on networks that lead nowhere.

    Args:
        model: the file, as the plugin resolves it.
        labels: of all that is made.
        images: the names of images to use in the place of what the file says, by service.
        is_open: services may reach the world.
    """
    services = {
        name: {key: value for key, value in service.items() if key in _KEPT}
        for name, service in model["services"].items()
        if name != MAIN
    }
    for name, service in services.items():
        if not is_open:
            service["dns"] = NO_DNS
        service["volumes"] = [_read_only_bind(volume) for volume in service.get("volumes") or ()]
        depends = service.get("depends_on")
        if isinstance(depends, dict):
            service["depends_on"] = {other: how for other, how in depends.items() if other != MAIN}
        service["labels"] = {**_as_table(service.get("labels")), **labels}
        service["mem_limit"] = min(_size(service.get("mem_limit")), DEFAULT_MEMORY_MB << 20)
        service["memswap_limit"] = service["mem_limit"]
        service["pids_limit"] = min(int(service.get("pids_limit") or DEFAULT_PROCESSES), DEFAULT_PROCESSES)
        service["security_opt"] = ["no-new-privileges"]
        service["logging"] = {"driver": "json-file", "options": {"max-size": "10m", "max-file": "1"}}
        if name in images:
            service["image"] = images[name]
            service.pop("build", None)
    networks = {
        name: {**_addresses(entry), "internal": True, "driver_opts": ISOLATED_BRIDGE, "labels": dict(labels)}
        for name, entry in {"default": None, **(model.get("networks") or {})}.items()
    }
    volumes = {name: {"labels": dict(labels)} for name in model.get("volumes") or {}}
    return {"services": services, "networks": networks, "volumes": volumes}


def main_networks(model: Mapping[str, Any]) -> list[str]:
    """The networks that the main service is on, by the names of the file."""
    named = (model["services"].get(MAIN) or {}).get("networks")
    return list(named) if named else ["default"]


def main_volumes(model: Mapping[str, Any], project: str) -> list[dict[str, Any]]:
    """The volumes that the main service shares with others, as the engine is told of them."""
    mounts = []
    for volume in (model["services"].get(MAIN) or {}).get("volumes") or ():
        if isinstance(volume, dict) and volume.get("type") in {"volume", "bind"} and volume.get("source"):
            is_volume = volume["type"] == "volume"
            source = f"{project}_{volume['source']}" if is_volume else str(volume["source"])
            mounts.append(
                {
                    "Type": volume["type"],
                    "Source": source,
                    "Target": posixpath.normpath(str(volume["target"])),
                    "ReadOnly": bool(volume.get("read_only")) or not is_volume,
                }
            )
    return mounts


def main_variables(model: Mapping[str, Any]) -> dict[str, str]:
    """The variables of the main service."""
    named = _as_table((model["services"].get(MAIN) or {}).get("environment"))
    return {name: str(value) for name, value in named.items() if value is not None}


def _as_table(value: Any) -> dict[str, Any]:
    if isinstance(value, dict):
        return value
    return dict(str(entry).partition("=")[::2] for entry in value or ())


def _read_only_bind(volume: Any) -> Any:
    """A folder of the task is the same for all attempts, and stays as it is."""
    return {**volume, "read_only": True} if _bind_source(volume) is not None and isinstance(volume, dict) else volume


def _addresses(entry: Any) -> dict[str, Any]:
    """What services with addresses of their own need; networks are bridges, whatever driver the file names."""
    config = (entry.get("ipam") or {}).get("config") if isinstance(entry, dict) else None
    return {"ipam": {"config": config}} if config else {}


def _size(value: Any) -> int:
    if value is None:
        return DEFAULT_MEMORY_MB << 20
    text = str(value).strip().lower().removesuffix("b")
    unit = _UNITS.get(text[-1:], 1)
    try:
        return int(float(text.rstrip("kmg")) * unit)
    except ValueError:
        return DEFAULT_MEMORY_MB << 20
