"""Compose files: what no environment may have of them, and what becomes of the rest.

The file is a task's, and is run by the engine, which may do all on its machine. So what leads out of the containers is
refused, and every service is labelled and limited as our own containers are.
"""

import posixpath
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from proctor.core.environment import DEFAULT_MEMORY_MB, DEFAULT_PROCESSES

MAIN: Final = "main"
_REFUSED_KEYS: Final = (
    "privileged",
    "cap_add",
    "devices",
    "device_cgroup_rules",
    "security_opt",
    "cgroup_parent",
    "userns_mode",
    "volumes_from",
    "runtime",
    "credential_spec",
    "sysctls",
)
_NAMESPACES: Final = ("network_mode", "pid", "ipc", "uts", "cgroup")
_OUTSIDE: Final = ("host", "container:")
_DROPPED: Final = ("container_name", "ports", "restart", "deploy", "logging", "links", "external_links", "develop")
_UNITS: Final = {"k": 1 << 10, "m": 1 << 20, "g": 1 << 30}


def compose_problems(model: Mapping[str, Any], folder: Path) -> list[str]:
    """What a compose file asks for and no environment may have; a few words each."""
    services = model.get("services")
    if not isinstance(services, dict) or not services:
        return ["a compose file with services"]
    found = [problem for name, service in services.items() for problem in _service_problems(name, service, folder)]
    for kind in ("networks", "volumes"):
        for name, entry in (model.get(kind) or {}).items():
            if isinstance(entry, dict) and (entry.get("external") or (entry.get("driver_opts") and kind == "volumes")):
                found.append(f"{kind[:-1]} {name} of its engine (external or with driver_opts)")
    if model.get("configs") or model.get("secrets"):
        found.append("configs or secrets of compose")
    return found


def _service_problems(name: str, service: Any, folder: Path) -> Iterator[str]:
    if not isinstance(service, dict):
        yield f"service {name} that is a table"
        return
    yield from (f"{key} for the service {name}" for key in _REFUSED_KEYS if service.get(key))
    for key in _NAMESPACES:
        value = str(service.get(key) or "")
        if value.startswith(_OUTSIDE) or (key == "network_mode" and value and value != "none"):
            yield f"{key} {value} for the service {name}"
    for volume in service.get("volumes") or ():
        source = _bind_source(volume)
        if source is not None and not _is_inside(folder, source):
            yield f"the folder {source} of this machine for the service {name}"
    build = service.get("build")
    context = build if isinstance(build, str) else (build or {}).get("context", ".") if build else "."
    if "://" in str(context) or not _is_inside(folder, str(context)):
        yield f"a build from {context} for the service {name}"


def _bind_source(volume: Any) -> str | None:
    """The path of this machine that a volume shows; None: it is a volume of the engine."""
    if isinstance(volume, dict):
        return str(volume.get("source")) if volume.get("type") == "bind" else None
    source = str(volume).split(":")[0]
    return source if source.startswith((".", "/", "~", "$")) and ":" in str(volume) else None


def _is_inside(folder: Path, path: str) -> bool:
    root = folder.resolve()
    return (root / path).resolve().is_relative_to(root)


def other_services(model: Mapping[str, Any], labels: Mapping[str, str], images: Mapping[str, str]) -> dict[str, Any]:
    """The project without its main service: labelled, limited, and on networks that lead nowhere.

    Args:
        model: the file, as the plugin resolves it.
        labels: of all that is made.
        images: the names of the images that are built, by service.
    """
    services = {name: dict(service) for name, service in model["services"].items() if name != MAIN}
    for name, service in services.items():
        for key in _DROPPED:
            service.pop(key, None)
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
    networks = {
        name: {**_plain(entry), "internal": True, "labels": dict(labels)}
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


def _plain(entry: Any) -> dict[str, Any]:
    return {key: entry[key] for key in ("driver", "ipam") if isinstance(entry, dict) and entry.get(key)}


def _size(value: Any) -> int:
    if value is None:
        return DEFAULT_MEMORY_MB << 20
    text = str(value).strip().lower().removesuffix("b")
    unit = _UNITS.get(text[-1:], 1)
    try:
        return int(float(text.rstrip("kmg")) * unit)
    except ValueError:
        return DEFAULT_MEMORY_MB << 20
