"""Harbor's task format, schema 1.0 to 1.4: a folder with ``task.toml``, instructions, an environment, tests."""

import hashlib
import posixpath
import re
from pathlib import Path
from typing import Any, Final

import msgspec

from proctor.benchmarks.harbor.config_values import ConfigValues, Table
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
_STEP_NAME: Final = re.compile(r'[^<>:"/\\|?*\x00-\x1f\x7f]{1,255}')


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
        self._values = ConfigValues(self._file)
        self._raw = raw
        self._schema = str(raw.get("schema_version", raw.get("version", "1.0")))
        if self._schema not in KNOWN_SCHEMAS:
            known = ", ".join(KNOWN_SCHEMAS)
            raise self._values.fail(f"schema {self._schema!r} is not known ({known} are)")
        self._is_old = tuple(int(part) for part in self._schema.split(".")) < _UNLIMITED_SINCE
        self._agent, self._verifier, self._environment = (
            self._values.table(raw, name) for name in ("agent", "verifier", "environment")
        )
        self._unsupported: list[str] = []

    def read(self) -> HarborTask:
        _require_inside(self._folder)
        environment = self._environment_of(self._environment, self._folder / "environment")
        listed = self._values.tables(self._raw, "steps")
        steps = [self._step(step, environment) for step in listed] if listed else [self._single_step(environment)]
        self._find_unsupported()
        if not self._unsupported:
            self._check_steps(steps, environment)
        return msgspec.convert(
            {
                "name": self._values.name(self._values.table(self._raw, "task"), self._folder.name),
                "folder": str(self._folder),
                "schema": self._schema,
                "digest": package_digest(self._folder),
                "environment": environment,
                "steps": steps,
                "strategy": self._raw.get("multi_step_reward_strategy") or "mean",
                "solution_variables": self._values.table(self._values.table(self._raw, "solution"), "env"),
                "mcp_servers": self._environment.get("mcp_servers", ()),
                "skills_dir": self._environment.get("skills_dir"),
                "metadata": self._values.table(self._raw, "metadata"),
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
            "artifacts": self._artifacts([]),
            "solution": str(solution) if (solution / SOLUTION_SCRIPT).is_file() else None,
            **self._agent_phase({}),
        }

    def _step(self, raw: Table, environment: Table) -> Table:
        name = raw.get("name")
        if not isinstance(name, str) or not _STEP_NAME.fullmatch(name) or name.strip(". ") != name:
            raise self._values.fail(f"a step's name is {name!r}, not that of a folder")
        folder = self._folder / "steps" / name
        own = folder / "solution"
        solution = own if own.is_dir() else self._folder / "solution"
        minimum = raw.get("min_reward")
        return {
            "name": name,
            "folder": str(folder),
            "instruction": self._instruction(folder),
            "verifier": self._step_verifier(self._values.table(raw, "verifier"), folder, environment),
            "artifacts": self._artifacts(self._values.items(raw, "artifacts")),
            "solution": str(solution) if (solution / SOLUTION_SCRIPT).is_file() else None,
            "healthcheck": _healthcheck(raw.get("healthcheck")),
            "min_reward": {} if minimum is None else minimum if isinstance(minimum, dict) else {"reward": minimum},
            **self._agent_phase(self._values.table(raw, "agent")),
        }

    def _agent_phase(self, own: Table) -> Table:
        default = _OLD_AGENT_SECONDS if self._is_old else None
        network = own if own.get("network_mode") is not None else self._agent
        return {
            "agent_seconds": self._values.positive({**self._agent, **own}, "timeout_sec", default),
            "user": _user(own.get("user", self._agent.get("user"))),
            "network": self._phase_network(network),
        }

    def _step_verifier(self, own: Table, folder: Path, environment: Table) -> Table:
        network = own if own.get("network_mode") is not None else self._verifier
        tests = [place for place in dict.fromkeys((self._folder / "tests", folder / "tests")) if place.is_dir()]
        separate, has_tests = self._verifier_environment(own, folder, environment)
        return {
            "tests": [str(place) for place in tests],
            "seconds": self._values.positive({**self._verifier, **own}, "timeout_sec", _VERIFIER_SECONDS),
            "variables": {**self._values.table(self._verifier, "env"), **self._values.table(own, "env")},
            "user": _user(own.get("user", self._verifier.get("user"))),
            "network": self._phase_network(network),
            "environment": separate,
            "has_tests": has_tests,
            "collect": [
                {**command, "user": _user(command.get("user"))}
                for table in (self._verifier, own)
                for command in self._values.tables(table, "collect")
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
        if mode not in ("shared", "separate"):
            raise self._values.fail(f"verifier.environment_mode is {mode!r}, not shared or separate")
        if mode == "shared":
            if own.get("environment") is not None:
                raise self._values.fail("a shared verifier has no environment of its own")
            return None, False
        definitions = [
            (self._values.table(own, "environment") if own.get("environment") is not None else None, folder / "tests"),
            (
                self._values.table(self._verifier, "environment")
                if self._verifier.get("environment") is not None
                else None,
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
        workdir = self._values.text(raw, "workdir") or start.workdir
        return {
            "folder": str(folder),
            "image": raw.get("docker_image"),
            "has_dockerfile": dockerfile.is_file(),
            "compose": compose,
            "workdir": posixpath.normpath(workdir) if workdir else "",
            "entrypoint": start.entrypoint,
            "network": self._environment_network(raw),
            "cpus": self._values.positive(raw, "cpus", limits.get("cpus")),
            "memory_mb": self._values.megabytes(raw, "memory", limits.get("memory_mb")),
            "storage_mb": self._values.megabytes(raw, "storage", None),
            "gpus": self._values.count(raw, "gpus"),
            "variables": self._values.table(raw, "env"),
            "healthcheck": _healthcheck(raw.get("healthcheck")),
        }

    def _artifacts(self, own: list[Any]) -> list[Table]:
        made = []
        for entry in (*self._values.items(self._raw, "artifacts"), *own):
            if not isinstance(entry, str | dict):
                raise self._values.fail(f"an artifact is {entry!r}, not a path or a table with one")
            table = {"source": entry} if isinstance(entry, str) else dict(entry)
            source, service = str(table.get("source", "")), table.get("service") or MAIN_SERVICE
            if not source or ".." in source.split("/"):
                raise self._values.fail(f"an artifact's source is {source!r}, not a path in the environment")
            if service != MAIN_SERVICE and not source.startswith("/"):
                raise self._values.fail(f"the artifact {source} of {service} is no absolute path")
            made.append({**table, "service": service})
        return made

    def _check_steps(self, steps: list[Table], environment: Table) -> None:
        """See that each environment can be made and each step can be verified."""
        names = [step["name"].casefold() for step in steps]
        if len(set(names)) != len(names):
            raise self._values.fail("two steps have the same name")
        _require_image(environment, self._folder)
        for step in steps:
            verifier = step["verifier"]
            for one in (*step["artifacts"], *verifier["collect"]):
                service = one.get("service") or MAIN_SERVICE
                if service != MAIN_SERVICE and environment["compose"] is None:
                    raise self._values.fail(f"it names the service {service}, and there is no compose file")
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
        settings = [self._environment, *(self._values.table(raw, "environment") for raw in self._verifiers())]
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
        steps = self._values.tables(self._raw, "steps")
        return [self._verifier, *(self._values.table(step, "verifier") for step in steps)]

    def _environment_network(self, raw: Table) -> Table:
        mode = raw.get("network_mode")
        if mode is None:
            is_open = raw.get("allow_internet")
            mode = NetworkMode.NO_NETWORK.value if is_open is False else NetworkMode.PUBLIC.value
        return self._network(mode, raw)

    def _phase_network(self, raw: Table) -> Table | None:
        mode = raw.get("network_mode")
        return None if mode is None else self._network(mode, raw)

    def _network(self, mode: str, raw: Table) -> Table:
        hosts = self._values.hosts(raw)
        if hosts and mode != NetworkMode.ALLOWLIST:
            raise self._values.fail(f"allowed_hosts is for the network mode allowlist, not for {mode}")
        return {"mode": mode, "allowed_hosts": hosts}

    def _instruction(self, folder: Path) -> str:
        return without_canary(_text(folder / "instruction.md"))


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
