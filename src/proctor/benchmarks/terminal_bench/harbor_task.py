"""Harbor's task format, schema 1.0 to 1.4: a folder with ``task.toml``, an instruction, an environment, tests."""

import hashlib
import posixpath
import re
from pathlib import Path
from typing import Any, Final, Literal

import msgspec
from msgspec import field

from proctor.core.errors import InvalidData
from proctor.core.record import Record
from proctor.core.user_files import parse_toml, read_user_file

CONFIG: Final = "task.toml"
TEST_SCRIPT: Final = "tests/test.sh"
SOLUTION: Final = "solution/solve.sh"
KNOWN_SCHEMAS: Final = ("1.0", "1.1", "1.2", "1.3", "1.4")
# Until then, a task that says nothing had these limits; since then it has none. Scores of older tasks were made with
# them, so they are kept.
_UNLIMITED_SINCE: Final = (1, 3)
_OLD_CPUS: Final = 1.0
_OLD_MEMORY_MB: Final = 2048
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
_INSTRUCTION: Final = re.compile(
    r"^[ \t]*(FROM|WORKDIR|USER|ENTRYPOINT)[ \t]+(.+?)[ \t]*$", re.IGNORECASE | re.MULTILINE
)
_MAX_TEXT_BYTES: Final = 1_000_000
_ROOT: Final = frozenset({"root", "0", "root:root", "0:0"})


class Healthcheck(Record):
    """How an environment's health is checked; in seconds."""

    command: str
    interval: float = 5.0
    timeout: float = 30.0
    start_period: float = 0.0
    retries: int = 3


class HarborTask(Record):
    """One task, with its defaults filled in as its schema has them.

    Attributes:
        network: ``public`` or ``no-network``.
        image: a ready image; None: the environment's Dockerfile makes it.
        workdir: where the agent and the verifier start.
        entrypoint: what the image runs its command with, which Harbor does not replace.
        digest: of the task's files, by Harbor's rule.
        unsupported: what the task asks for and Proctor cannot do; such a task is refused.
    """

    name: str
    folder: str
    schema: str
    instruction: str
    digest: str
    agent_seconds: float | None
    verifier_seconds: float
    cpus: float | None
    memory_mb: int | None
    gpus: int
    network: Literal["public", "no-network"]
    image: str | None
    workdir: str
    variables: dict[str, str] = field(default_factory=dict)
    verifier_variables: dict[str, str] = field(default_factory=dict)
    solution_variables: dict[str, str] = field(default_factory=dict)
    entrypoint: tuple[str, ...] = ()
    healthcheck: Healthcheck | None = None
    metadata: dict[str, Any] = field(default_factory=dict)
    has_solution: bool = False
    unsupported: tuple[str, ...] = ()

    @property
    def path(self) -> Path:
        """The task's folder."""
        return Path(self.folder)

    def test_script(self) -> str:
        """The verifier's program."""
        return (self.path / TEST_SCRIPT).read_text(encoding="utf-8", errors="replace")

    def text(self) -> str:
        """All that the task says of the files that it is about: its instruction and its tests."""
        tests = sorted(path for path in (self.path / "tests").rglob("*") if path.is_file() and not path.is_symlink())
        read = (path.read_bytes()[:_MAX_TEXT_BYTES].decode("utf-8", "replace") for path in tests)
        return "\n".join((self.instruction, *read))


def read_task(folder: Path) -> HarborTask:
    """Read a task folder.

    Raises:
        InvalidData: it is none; says what is wrong.
    """
    raw = _toml(folder / CONFIG)
    schema = str(raw.get("schema_version", raw.get("version", "1.0")))
    if schema not in KNOWN_SCHEMAS:
        raise InvalidData(f"schema {schema!r} is not known ({', '.join(KNOWN_SCHEMAS)} are)", where=folder / CONFIG)
    old = tuple(int(part) for part in schema.split(".")) < _UNLIMITED_SINCE
    agent, verifier, environment, solution = (
        _table(raw, name, folder) for name in ("agent", "verifier", "environment", "solution")
    )
    unsupported = tuple(_unsupported(raw, folder))
    if not (folder / TEST_SCRIPT).is_file() and not unsupported:
        raise InvalidData(f"there is no {TEST_SCRIPT}", where=folder)
    image = environment.get("docker_image")
    dockerfile = folder / "environment" / "Dockerfile"
    if image is None and not dockerfile.is_file() and not unsupported:
        raise InvalidData("there is neither a Dockerfile nor a docker_image", where=folder)
    try:
        return msgspec.convert(
            {
                "name": _table(raw, "task", folder).get("name") or folder.name,
                "folder": str(folder),
                "schema": schema,
                "instruction": without_canary(_text(folder / "instruction.md")),
                "digest": package_digest(folder),
                "agent_seconds": agent.get("timeout_sec", _OLD_AGENT_SECONDS if old else None),
                "verifier_seconds": verifier.get("timeout_sec", _VERIFIER_SECONDS),
                "cpus": environment.get("cpus", _OLD_CPUS if old else None),
                "memory_mb": _memory(environment, folder, _OLD_MEMORY_MB if old else None),
                "gpus": environment.get("gpus", 0) or 0,
                "network": _network(environment),
                "image": image,
                "workdir": environment.get("workdir") or container_start(_optional(dockerfile)).workdir,
                "entrypoint": container_start(_optional(dockerfile)).entrypoint,
                "variables": environment.get("env", {}),
                "verifier_variables": verifier.get("env", {}),
                "solution_variables": solution.get("env", {}),
                "healthcheck": environment.get("healthcheck"),
                "metadata": _table(raw, "metadata", folder),
                "has_solution": (folder / SOLUTION).is_file(),
                "unsupported": unsupported,
            },
            HarborTask,
        )
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


class ContainerStart(Record):
    """How a container starts, as far as its Dockerfile says: where, as whom, and what runs its command."""

    workdir: str = "/"
    user: str = "root"
    entrypoint: tuple[str, ...] = ()


def container_start(dockerfile: str) -> ContainerStart:
    """How a container of this Dockerfile's last stage starts. What the image below it says is not known here."""
    start = ContainerStart()
    for word, rest in _INSTRUCTION.findall(dockerfile.replace("\\\n", " ")):
        match word.upper():
            case "FROM":
                start = ContainerStart()
            case "WORKDIR":
                place = posixpath.normpath(posixpath.join(start.workdir, rest.strip("\"'")))
                start = msgspec.structs.replace(start, workdir=place)
            case "USER":
                start = msgspec.structs.replace(start, user=rest)
            case _:
                start = msgspec.structs.replace(start, entrypoint=_entrypoint(rest))
    return start


def _entrypoint(text: str) -> tuple[str, ...]:
    """A list of words, or a line for a shell."""
    try:
        words = msgspec.json.decode(text, type=tuple[str, ...])
    except (msgspec.DecodeError, RecursionError):
        return ("/bin/sh", "-c", text)
    return words


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


def _unsupported(raw: dict[str, Any], folder: Path) -> list[str]:
    """Every part of the format that the task uses and Proctor has not."""
    agent, verifier, environment = (_table(raw, name, folder) for name in ("agent", "verifier", "environment"))
    found = []
    if raw.get("steps") or (folder / "steps").is_dir():
        found.append("several steps")
    if (folder / "trajectory.json").is_file():
        found.append("a conversation that goes before")
    if any((folder / "environment" / name).is_file() for name in ("docker-compose.yaml", "docker-compose.yml")):
        found.append("several containers (docker-compose)")
    if environment.get("os", "linux") != "linux":
        found.append(f"{environment['os']} as operating system")
    if environment.get("network_mode", "public") == "allowlist" or environment.get("allowed_hosts"):
        found.append("a network with allowed hosts only")
    if any(
        phase.get("network_mode") not in {None, environment.get("network_mode", "public")}
        for phase in (agent, verifier)
    ):
        found.append("another network for one phase")
    if verifier.get("environment_mode", "shared") != "shared" or verifier.get("environment") or verifier.get("collect"):
        found.append("a verifier in an environment of its own")
    found += [
        f"{who} as another user than root"
        for who, phase in (("an agent", agent), ("a verifier", verifier))
        if phase.get("user") not in {None, "root", "0", 0}
    ]
    user = container_start(_optional(folder / "environment" / "Dockerfile")).user
    if user not in _ROOT:
        found.append(f"an image whose user is {user}, not root")
    found += [what for key, what in (("mcp_servers", "MCP servers"), ("tpu", "a TPU")) if environment.get(key)]
    return found


def _network(environment: dict[str, Any]) -> str:
    mode = environment.get("network_mode")
    if mode is None:
        return "public" if environment.get("allow_internet", True) else "no-network"
    return "no-network" if mode == "no-network" else "public"


def _memory(environment: dict[str, Any], folder: Path, default: int | None) -> int | None:
    """Megabytes, from the number or from the text that older files have."""
    number, text = environment.get("memory_mb"), environment.get("memory")
    if text is None:
        return default if number is None else number
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([GMK])[iI]?[bB]?", str(text).strip(), re.IGNORECASE)
    if match is None:
        raise InvalidData(f"memory is {text!r}, not a number of G, M or K", where=folder / CONFIG)
    size = int(float(match[1]) * _UNITS[match[2].upper()])
    if number is not None and number != size:
        raise InvalidData(f"memory is {text!r} and memory_mb is {number}", where=folder / CONFIG)
    return size


def _toml(file: Path) -> dict[str, Any]:
    try:
        return parse_toml(_text(file))
    except ValueError as error:
        raise InvalidData(f"this is not TOML: {error}", where=file) from error


def _table(raw: dict[str, Any], name: str, folder: Path) -> dict[str, Any]:
    table = raw.get(name, {})
    if not isinstance(table, dict):
        raise InvalidData(f"[{name}] is not a table", where=folder / CONFIG)
    return table


def _text(file: Path) -> str:
    return read_user_file(file, "it", error=InvalidData)


def _optional(file: Path) -> str:
    return _text(file) if file.is_file() else ""
