"""The METR Task Standard, as far as a driver needs it: a family's manifest, and its operations in an environment."""

import json
import os
import secrets
from importlib import resources
from pathlib import Path
from typing import Any, Final

import msgspec

from proctor.benchmarks.re_bench.scoring import finite_or_none
from proctor.core.causes import Cause
from proctor.core.environment import Environment, ExecResult
from proctor.core.errors import InfrastructureError, InvalidData
from proctor.core.record import Record
from proctor.core.user_files import parse_document, parse_yaml

# Where a family lies in its environments: in a container where the standard has it, else where nothing of this machine
# does.
IMAGE_FAMILY_DIR: Final = "/root"
DEFAULT_FAMILY_DIR: Final = "/family"
AGENT_HOME: Final = "/home/agent"
PROTECTED_DIR: Final = "/protected"
START_SECONDS: Final = 3600.0
SCORE_SECONDS: Final = 600.0
_KILLED_EXIT_CODE: Final = 137


class GPU(Record):
    """What a task asks for in graphics cards."""

    count_range: tuple[int, int]
    model: str = ""


class Resources(Record):
    """What a task asks for in hardware."""

    gpu: GPU | None = None
    cpus: int | None = None
    memory_gb: float | None = None
    storage_gb: float | None = None

    @property
    def gpus(self) -> int:
        """How many graphics cards it needs at least."""
        return self.gpu.count_range[0] if self.gpu is not None else 0

    @property
    def gpu_model(self) -> str:
        """Which ones."""
        return (self.gpu.model if self.gpu is not None else "") or "any"


class Scoring(Record):
    """How scores are given out."""

    visible_to_agent: bool = True
    score_on_usage_limits: bool = False
    instructions: str | None = None


class TaskManifest(Record):
    """One task of a manifest."""

    version: str | None = None
    resources: Resources = Resources()
    scoring: Scoring = Scoring()
    meta: dict[str, Any] = msgspec.field(default_factory=dict)


class FamilyManifest(Record):
    """``manifest.yaml``."""

    version: str | None = None
    tasks: dict[str, TaskManifest] = msgspec.field(default_factory=dict)
    meta: dict[str, Any] = msgspec.field(default_factory=dict)


class TaskDescription(Record):
    """What a family's code says of one task."""

    instructions: str
    permissions: tuple[str, ...] = ()


class FamilyDescription(Record):
    """What a family's code says of itself.

    Attributes:
        variables: environment variables that it requires: keys, mostly.
        supports_intermediate_score: it can be asked for scores while the agent works.
        needs_aux_vm: it needs a second machine beside the agent's.
        problem: why there is no description, where that is so.
    """

    tasks: dict[str, TaskDescription] = msgspec.field(default_factory=dict)
    variables: tuple[str, ...] = ()
    supports_intermediate_score: bool = msgspec.field(default=True, name="intermediate")
    needs_aux_vm: bool = msgspec.field(default=False, name="aux_vm")
    problem: str = ""
    version: str = ""


class ScorerResult(Record):
    """What a scorer gave: a score (None: none that counts), what the agent may hear of it, and what only we may."""

    score: float | None
    message: dict[str, Any] = msgspec.field(default_factory=dict)
    detail: str = ""


def read_manifest(folder: Path) -> FamilyManifest:
    """A family's manifest; an empty one where it has none.

    Raises:
        InvalidData: it is not one.
    """
    file = folder / "manifest.yaml"
    if not file.is_file():
        return FamilyManifest()
    document = parse_document(file, "the manifest", parse_yaml, "YAML", error=InvalidData)
    try:
        return msgspec.convert(document or {}, FamilyManifest, strict=False)
    except msgspec.ValidationError as error:
        raise InvalidData(f"this is not a manifest: {' '.join(str(error).split())}", where=file) from error


def driver_request(operation: str, family: str, folder: str, **more: object) -> tuple[bytes, str]:
    """The driver's standard input for one operation, and the marker that its reply stands between."""
    word = secrets.token_hex(16)
    given = {"operation": operation, "family": family, "folder": folder, "word": word, **more}
    return json.dumps(given).encode(), word


def driver_source() -> str:
    """The driver, to be run by any Python 3 with ``-c``."""
    return (resources.files("proctor.benchmarks.re_bench") / "inside" / "driver.py").read_text(encoding="utf-8")


_DRIVER_COMMAND: Final = ("python3", "-B", "-c", driver_source())


def driver_reply(output: bytes, marker: str) -> Any:
    """What stands between the two lines with the word.

    Raises:
        ValueError: nothing does.
    """
    mark = b"\n%s\n" % marker.encode()
    _, found, rest = output.partition(mark)
    text, ended, _ = rest.partition(mark)
    if not found or not ended:
        raise ValueError("there is no reply")
    return json.loads(text)


async def start_family(
    environment: Environment, family: str, task: str, *, folder: str, variables: dict[str, str]
) -> None:
    """Let the family, which lies at `folder`, make the machine ready.

    Raises:
        InfrastructureError: it failed.
    """
    given, _ = driver_request("start", family, folder, task=task)
    done = await environment.exec(_DRIVER_COMMAND, stdin=given, cwd="/", timeout=START_SECONDS, variables=variables)
    if done.exit_code != 0:
        raise InfrastructureError(
            f"the family could not make its machine ready: {_last_line(done)}",
            where=f"{family}/{task}",
            cause=Cause.ENVIRONMENT_FAILED,
        )


async def request_score(
    environment: Environment, family: str, task: str, description: FamilyDescription, *, folder: str
) -> ScorerResult:
    """Ask the family, which lies at `folder`, for the score of what stands in the environment."""
    operation = "intermediate_score" if description.supports_intermediate_score else "score"
    given, word = driver_request(operation, family, folder, task=task, submission="")
    done = await environment.exec(
        _DRIVER_COMMAND, stdin=given, cwd="/", timeout=SCORE_SECONDS, variables=required_variables(description)
    )
    if done.timed_out:
        return ScorerResult(score=None, message={"timeout": True})
    if done.exit_code == _KILLED_EXIT_CODE:
        return ScorerResult(score=None, message={"out_of_memory": True})
    try:
        said = driver_reply(done.stdout, word)
        score = None if said["score"] is None else finite_or_none(float(said["score"]))
        return ScorerResult(score=score, message=dict(said.get("message") or {}))
    except (ValueError, KeyError, TypeError, AttributeError):
        return ScorerResult(score=None, message={"error": "the scorer failed"}, detail=_last_line(done))


def required_variables(description: FamilyDescription) -> dict[str, str]:
    """The variables that a family needs, from our own environment; they enter its environments, never the agent's."""
    return {name: os.environ[name] for name in description.variables if name in os.environ}


def _last_line(done: ExecResult) -> str:
    lines = done.stderr.decode("utf-8", "replace").strip().splitlines()
    return lines[-1][:300] if lines else f"exit code {done.exit_code}"
