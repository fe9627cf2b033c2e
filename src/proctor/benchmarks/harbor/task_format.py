"""Harbor's task format, schema 1.0 to 1.4: a folder with ``task.toml``, instructions, an environment, tests."""

import hashlib
import ipaddress
import posixpath
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from proctor.benchmarks.harbor.dockerfile import container_start
from proctor.benchmarks.harbor.task import (
    MAIN_SERVICE,
    SOLUTION_SCRIPT,
    TEST_SCRIPT,
    HarborTask,
    NetworkMode,
)
from proctor.core.errors import InvalidData
from proctor.core.user_files import parse_document, parse_toml, parse_yaml, read_user_file
from proctor.environments.compose_model import compose_problems

CONFIG: Final = "task.toml"
COMPOSE_FILES: Final = ("docker-compose.yaml", "docker-compose.yml")
KNOWN_SCHEMAS: Final = ("1.0", "1.1", "1.2", "1.3", "1.4")
# Until then, a task that says nothing had these limits; since then it has none. Scores of older tasks were made with
# them, so they are kept.
_UNLIMITED_SINCE: Final = (1, 3)
_OLD_LIMITS: Final = {"cpus": 1.0, "memory_mb": 2048}
_OLD_AGENT_SECONDS: Final = 600.0
_VERIFIER_SECONDS: Final = 600.0
_UNITS: Final = {"G": 1024, "M": 1, "K": 1 / 1024}
_PACKAGED: Final = (
    "README.md",
    "environment",
    "instruction.md",
    "solution",
    "steps",
    "task.toml",
    "tests",
    "trajectory.json",
)
_CANARY: Final = re.compile(r"^\s*(<!--.*canary.*-->|#.*canary.*)\s*$", re.IGNORECASE)
_HOST: Final = re.compile(r"(\*\.)?([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?)(\.[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?)*")
_STEP_NAME: Final = re.compile(r'[^<>:"/\\|?*\x00-\x1f\x7f]{1,255}')

Table = dict[str, Any]


def read_task(folder: Path) -> HarborTask:
    """Read a task folder.

    Raises:
        InvalidData: it is none; says what is wrong.
    """
    reader = _TaskReader(folder, _toml(folder / CONFIG))
    try:
        return reader.read()
    except msgspec.ValidationError as error:
        raise InvalidData(f"this is not as Harbor has it: {error}", where=folder / CONFIG) from error


def without_canary(text: str) -> str:
    """The instruction as the agent sees it: Harbor takes leading lines out that mark the text for search engines."""
    lines = text.splitlines(keepends=True)
    if not lines or not _CANARY.match(lines[0]):
        return text
    while lines and (_CANARY.match(lines[0]) or not lines[0].strip()):
        lines.pop(0)
    return "".join(lines)


def package_digest(folder: Path) -> str:
    """Identifies a task by Harbor's rule for packages."""
    files = []
    for name in _PACKAGED:
        path = folder / name
        files += [path] if path.is_file() else [file for file in path.rglob("*") if file.is_file()]
    lines = [
        f"{file.relative_to(folder).as_posix()}\0{hashlib.sha256(file.read_bytes()).hexdigest()}\n" for file in files
    ]
    return hashlib.sha256("".join(sorted(lines)).encode()).hexdigest()


class _TaskReader:
    """Reads one task; `raw` is its ``task.toml``."""

    def __init__(self, folder: Path, raw: Table) -> None:
        self._folder = folder
        self._file = folder / CONFIG
        self._raw = raw
        self._schema = str(raw.get("schema_version", raw.get("version", "1.0")))
        if self._schema not in KNOWN_SCHEMAS:
            known = ", ".join(KNOWN_SCHEMAS)
            raise InvalidData(f"schema {self._schema!r} is not known ({known} are)", where=self._file)
        self._is_old = tuple(int(part) for part in self._schema.split(".")) < _UNLIMITED_SINCE
        self._agent, self._verifier, self._environment = (
            self._table(raw, name) for name in ("agent", "verifier", "environment")
        )
        self._unsupported: list[str] = []

    def read(self) -> HarborTask:
        _require_inside(self._folder)
        environment = self._environment_of(self._environment, self._folder / "environment")
        listed = self._raw.get("steps") or ()
        steps = [self._step(step, environment) for step in listed] if listed else [self._single_step(environment)]
        self._find_unsupported()
        if not self._unsupported:
            self._check_steps(steps)
        return msgspec.convert(
            {
                "name": self._table(self._raw, "task").get("name") or self._folder.name,
                "folder": str(self._folder),
                "schema": self._schema,
                "digest": package_digest(self._folder),
                "environment": environment,
                "steps": steps,
                "strategy": self._raw.get("multi_step_reward_strategy") or "mean",
                "solution_variables": self._table(self._raw, "solution").get("env", {}),
                "mcp_servers": self._environment.get("mcp_servers", ()),
                "skills_dir": self._environment.get("skills_dir"),
                "metadata": self._table(self._raw, "metadata"),
                "unsupported": self._unsupported,
            },
            HarborTask,
        )

    def _single_step(self, environment: Table) -> Table:
        solution = self._folder / "solution"
        return {
            "name": "",
            "folder": str(self._folder),
            "instruction": self._instruction(self._folder),
            "verifier": self._step_verifier({}, self._folder, environment),
            "artifacts": self._artifacts(()),
            "solution": str(solution) if (solution / SOLUTION_SCRIPT).is_file() else None,
            **self._agent_phase({}),
        }

    def _step(self, raw: Any, environment: Table) -> Table:
        name = raw.get("name") if isinstance(raw, dict) else None
        if not isinstance(name, str) or not _STEP_NAME.fullmatch(name) or name.strip(". ") != name:
            raise InvalidData(f"a step's name is {name!r}, not that of a folder", where=self._file)
        folder = self._folder / "steps" / name
        own = folder / "solution"
        solution = own if own.is_dir() else self._folder / "solution"
        minimum = raw.get("min_reward")
        return {
            "name": name,
            "folder": str(folder),
            "instruction": self._instruction(folder),
            "verifier": self._step_verifier(self._table(raw, "verifier"), folder, environment),
            "artifacts": self._artifacts(raw.get("artifacts", ())),
            "solution": str(solution) if (solution / SOLUTION_SCRIPT).is_file() else None,
            "healthcheck": _healthcheck(raw.get("healthcheck")),
            "min_reward": {} if minimum is None else minimum if isinstance(minimum, dict) else {"reward": minimum},
            **self._agent_phase(self._table(raw, "agent")),
        }

    def _agent_phase(self, own: Table) -> Table:
        default = _OLD_AGENT_SECONDS if self._is_old else None
        network = own if own.get("network_mode") is not None else self._agent
        return {
            "agent_seconds": own.get("timeout_sec", self._agent.get("timeout_sec", default)),
            "user": _user(own.get("user", self._agent.get("user"))),
            "network": self._phase_network(network),
        }

    def _step_verifier(self, own: Table, folder: Path, environment: Table) -> Table:
        network = own if own.get("network_mode") is not None else self._verifier
        tests = [place for place in dict.fromkeys((self._folder / "tests", folder / "tests")) if place.is_dir()]
        separate, has_tests = self._verifier_environment(own, folder, environment)
        return {
            "tests": [str(place) for place in tests],
            "seconds": own.get("timeout_sec", self._verifier.get("timeout_sec", _VERIFIER_SECONDS)),
            "variables": {**self._verifier.get("env", {}), **own.get("env", {})},
            "user": _user(own.get("user", self._verifier.get("user"))),
            "network": self._phase_network(network),
            "environment": separate,
            "has_tests": has_tests,
            "collect": [
                {**command, "user": _user(command.get("user"))}
                for command in (*self._verifier.get("collect", ()), *own.get("collect", ()))
            ],
        }

    def _verifier_environment(self, own: Table, folder: Path, environment: Table) -> tuple[Table | None, bool]:
        """The verifier's own environment, where it has one, and whether its image has the tests.

        The nearest definition with an image of its own makes the image; without one, that of the agent does.
        """
        mode = own.get("environment_mode")
        if mode is None:
            mode = "separate" if own.get("environment") is not None else self._verifier.get("environment_mode")
        if mode is None:
            mode = "separate" if self._verifier.get("environment") is not None else "shared"
        if mode not in {"shared", "separate"}:
            raise InvalidData(f"verifier.environment_mode is {mode!r}, not shared or separate", where=self._file)
        if mode == "shared":
            if own.get("environment") is not None:
                raise InvalidData("a shared verifier has no environment of its own", where=self._file)
            return None, False
        definitions = [
            (self._table(own, "environment") if own.get("environment") is not None else None, folder / "tests"),
            (
                self._table(self._verifier, "environment") if self._verifier.get("environment") is not None else None,
                self._folder / "tests",
            ),
        ]
        settings = next((raw for raw, _ in definitions if raw is not None), self._environment)
        for raw, place in definitions:
            image = None if raw is None else raw.get("docker_image")
            if image or any((place / name).is_file() for name in ("Dockerfile", *COMPOSE_FILES)):
                return self._environment_of({**settings, "docker_image": image}, place), True
        settings = {**settings, "docker_image": self._environment.get("docker_image")}
        if settings.get("workdir") is None:
            settings["workdir"] = environment["workdir"]
        return self._environment_of(settings, self._folder / "environment"), False

    def _environment_of(self, raw: Table, folder: Path) -> Table:
        dockerfile = folder / "Dockerfile"
        start = container_start(_text(dockerfile) if dockerfile.is_file() else "")
        compose = next((name for name in COMPOSE_FILES if (folder / name).is_file()), None)
        limits = _OLD_LIMITS if self._is_old else {}
        return {
            "folder": str(folder),
            "image": raw.get("docker_image"),
            "has_dockerfile": dockerfile.is_file(),
            "compose": compose,
            "workdir": posixpath.normpath(raw.get("workdir") or start.workdir)
            if raw.get("workdir") or start.workdir
            else "",
            "entrypoint": start.entrypoint,
            "network": self._environment_network(raw),
            "cpus": raw.get("cpus", limits.get("cpus")),
            "memory_mb": self._size(raw, "memory", limits.get("memory_mb")),
            "storage_mb": self._size(raw, "storage", None),
            "gpus": raw.get("gpus", 0) or 0,
            "variables": raw.get("env", {}),
            "healthcheck": _healthcheck(raw.get("healthcheck")),
        }

    def _artifacts(self, own: Any) -> list[Table]:
        made = []
        for entry in (*self._raw.get("artifacts", ()), *own):
            table = {"source": entry} if isinstance(entry, str) else dict(entry)
            source, service = str(table.get("source", "")), table.get("service") or MAIN_SERVICE
            if not source or ".." in source.split("/"):
                raise InvalidData(
                    f"an artifact's source is {source!r}, not a path in the environment", where=self._file
                )
            if service != MAIN_SERVICE and not source.startswith("/"):
                raise InvalidData(f"the artifact {source} of {service} is no absolute path", where=self._file)
            made.append({**table, "service": service})
        return made

    def _check_steps(self, steps: list[Table]) -> None:
        """See that each environment can be made and each step can be verified."""
        names = [step["name"].casefold() for step in steps]
        if len(set(names)) != len(names):
            raise InvalidData("two steps have the same name", where=self._file)
        _require_image(self._environment_of(self._environment, self._folder / "environment"), self._folder)
        for step in steps:
            verifier = step["verifier"]
            if verifier["environment"] is not None:
                _require_image(verifier["environment"], self._folder)
            if not verifier["has_tests"] and not any(
                (Path(place) / TEST_SCRIPT).is_file() for place in verifier["tests"]
            ):
                raise InvalidData(f"there is no tests/{TEST_SCRIPT}", where=step["folder"])

    def _find_unsupported(self) -> None:
        """Every part of the format that the task uses and Proctor has not."""
        folders = (self._folder, *(self._folder / "steps").glob("*"))
        if any((folder / "trajectory.json").is_file() for folder in folders):
            self._unsupported.append("a conversation that goes before")
        settings = [self._environment, *(raw.get("environment") or {} for raw in self._verifiers())]
        for name in dict.fromkeys(str(raw.get("os", "linux")).lower() for raw in settings):
            if name != "linux":
                self._unsupported.append(f"{name} as operating system")
        if any(raw.get("tpu") for raw in settings):
            self._unsupported.append("a TPU")
        for folder in (self._folder / "environment", *(place for place in self._folder.rglob("tests"))):
            for file in (folder / name for name in COMPOSE_FILES if (folder / name).is_file()):
                document = parse_document(file, "it", parse_yaml, "YAML", error=InvalidData)
                model = document if isinstance(document, dict) else {}
                self._unsupported += compose_problems(model, folder)

    def _verifiers(self) -> list[Table]:
        steps = [step for step in self._raw.get("steps") or () if isinstance(step, dict)]
        return [self._verifier, *(self._table(step, "verifier") for step in steps)]

    def _environment_network(self, raw: Table) -> Table:
        mode = raw.get("network_mode")
        if mode is None:
            is_open = raw.get("allow_internet")
            mode = NetworkMode.NO_NETWORK.value if is_open is False else NetworkMode.PUBLIC.value
        return self._network(mode, raw.get("allowed_hosts"))

    def _phase_network(self, raw: Table) -> Table | None:
        mode = raw.get("network_mode")
        return None if mode is None else self._network(mode, raw.get("allowed_hosts"))

    def _network(self, mode: str, hosts: Any) -> Table:
        if hosts and mode != NetworkMode.ALLOWLIST:
            raise InvalidData(f"allowed_hosts is for the network mode allowlist, not for {mode}", where=self._file)
        return {"mode": mode, "allowed_hosts": [self._host(host) for host in hosts or ()]}

    def _host(self, host: Any) -> str:
        name = str(host).strip().lower().rstrip(".")
        try:
            return str(ipaddress.ip_network(name)) if "/" in name else str(ipaddress.ip_address(name))
        except ValueError:
            if not _HOST.fullmatch(name):
                raise InvalidData(
                    f"allowed_hosts has {host!r}, which is neither a host's name nor an address", where=self._file
                ) from None
        return name

    def _size(self, raw: Table, name: str, default: Any) -> Any:
        """Megabytes, from the number or from the text that older files have."""
        number, text = raw.get(f"{name}_mb"), raw.get(name)
        if text is None:
            return default if number is None else number
        match = re.fullmatch(r"(\d+(?:\.\d+)?)([GMK])[iI]?[bB]?", str(text).strip(), re.IGNORECASE)
        if match is None:
            raise InvalidData(f"{name} is {text!r}, not a number of G, M or K", where=self._file)
        size = int(float(match[1]) * _UNITS[match[2].upper()])
        if number is not None and number != size:
            raise InvalidData(f"{name} is {text!r} and {name}_mb is {number}", where=self._file)
        return size

    def _instruction(self, folder: Path) -> str:
        return without_canary(_text(folder / "instruction.md"))

    def _table(self, raw: Mapping[str, Any], name: str) -> Table:
        table = raw.get(name, {})
        if not isinstance(table, dict):
            raise InvalidData(f"[{name}] is not a table", where=self._file)
        return table


def _healthcheck(raw: Any) -> Any:
    """Names of seconds end in ``_sec``; older files have them without."""
    return {key.removesuffix("_sec"): value for key, value in raw.items()} if isinstance(raw, dict) else raw


def _user(user: Any) -> str | None:
    return None if user is None else str(user)


def _require_image(environment: Table, folder: Path) -> None:
    if environment["image"] is None and not environment["has_dockerfile"] and environment["compose"] is None:
        raise InvalidData("there is neither a Dockerfile nor a docker_image", where=folder)


def _require_inside(folder: Path) -> None:
    """See that no link of a task leads out of its folder: what it leads to would be copied into environments.

    Raises:
        InvalidData: one does.
    """
    root = folder.resolve()
    for name in _PACKAGED:
        for path in ((folder / name), *(folder / name).rglob("*")):
            if path.is_symlink() and not path.resolve().is_relative_to(root):
                raise InvalidData("a link that leads out of the task's folder", where=path)


def _toml(file: Path) -> Table:
    try:
        return parse_toml(_text(file))
    except ValueError as error:
        raise InvalidData(f"this is not TOML: {error}", where=file) from error


def _text(file: Path) -> str:
    return read_user_file(file, "it", error=InvalidData)
