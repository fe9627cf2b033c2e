"""Task families: METR's seven with their published scores, and any folder that says its own."""

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from proctor.benchmarks.re_bench.scoring import ScoreScale, ScoreSelection
from proctor.benchmarks.re_bench.task_standard import (
    FamilyDescription,
    FamilyManifest,
    TaskManifest,
    driver_reply,
    driver_request,
    driver_source,
    read_manifest,
)
from proctor.core.benchmark import InvalidTask
from proctor.core.errors import InvalidData
from proctor.core.record import read_record

DESCRIPTION_FILE: Final = "described.json"
SOLUTION_FILE: Final = "solution.sh"
_DESCRIBE_SECONDS: Final = 60.0

# Start and reference as METR's README gives them. Its back-fill table has the kernel family under `max`, which
# contradicts its score (the logarithm of a time): the least is the best.
SCALES: Final[Mapping[str, ScoreScale]] = {
    "ai_rd_triton_cumsum": ScoreScale(selection=ScoreSelection.MIN, start=1.56, reference=0.47),
    "ai_rd_optimize_llm_foundry": ScoreScale(selection=ScoreSelection.MIN, start=5.6, reference=4.54),
    "ai_rd_fix_embedding": ScoreScale(selection=ScoreSelection.MIN, start=2.2, reference=0.26),
    "ai_rd_restricted_mlm": ScoreScale(selection=ScoreSelection.MIN, start=1.81, reference=1.13),
    "ai_rd_nanogpt_chat_rl": ScoreScale(selection=ScoreSelection.MAX, start=0.54, reference=0.85),
    "ai_rd_rust_codecontests_inference": ScoreScale(selection=ScoreSelection.MAX, start=0.0, reference=0.13),
    "ai_rd_small_scaling_law": ScoreScale(selection=ScoreSelection.LAST, start=0.24, reference=0.84),
}


@dataclass(frozen=True, slots=True)
class TaskFamilyFiles:
    """A family on this machine."""

    name: str
    folder: Path
    manifest: FamilyManifest
    description: FamilyDescription

    @property
    def solution(self) -> str | None:
        """The script that reaches the reference, where the family has one that can be read."""
        file = self.folder / SOLUTION_FILE
        return file.read_text(encoding="utf-8") if file.is_file() else None

    def task(self, name: str) -> TaskManifest:
        """What the manifest says of a task."""
        return self.manifest.tasks.get(name, TaskManifest())

    def scale(self, name: str) -> ScoreScale | None:
        """How a task's scores are read: as METR published, or as the manifest says."""
        if self.name in SCALES:
            return SCALES[self.name]
        try:
            meta = self.task(name).meta
            # `counts` is what manifests called it before.
            return msgspec.convert({"selection": meta.get("counts"), **meta}, ScoreScale)
        except msgspec.ValidationError:
            return None


def family_folders(root: Path) -> Iterator[Path]:
    """The folders below `root` that hold a family: a program of the folder's own name."""
    for folder in sorted(root.iterdir()):
        if (folder / f"{folder.name}.py").is_file():
            yield folder


def load_families(root: Path, *, trusted: bool = False) -> tuple[list[TaskFamilyFiles], list[InvalidTask]]:
    """Every family below `root`, and those that cannot be used.

    What a family says of itself is read from a file beside it. Only `trusted` ones are asked here and now.
    """
    families: list[TaskFamilyFiles] = []
    unusable: list[InvalidTask] = []
    for folder in family_folders(root):
        try:
            described = (
                describe_family(folder) if trusted else read_record(folder / DESCRIPTION_FILE, FamilyDescription)
            )
            if described.problem:
                raise InvalidData(described.problem, where=folder.name)
            families.append(TaskFamilyFiles(folder.name, folder, read_manifest(folder), described))
        except InvalidData as error:
            unusable.append(InvalidTask(task_id=folder.name, problems=(str(error),)))
    return families, unusable


def describe_family(folder: Path) -> FamilyDescription:
    """What a family says of itself: its code is run, in a process of its own, so it must be one of ours.

    Raises:
        InvalidData: it cannot say.
    """
    given, word = driver_request("describe", folder.name, str(folder))
    done = subprocess.run(
        [sys.executable, "-I", "-B", "-c", driver_source()],
        input=given,
        capture_output=True,
        env={},
        check=False,
        timeout=_DESCRIBE_SECONDS,
    )
    return read_description(done.stdout, word, where=folder, stderr=done.stderr)


def read_description(output: bytes, marker: str, *, where: object, stderr: bytes) -> FamilyDescription:
    """What the driver's `describe` returned.

    Raises:
        InvalidData: it did not.
    """
    try:
        return msgspec.convert(driver_reply(output, marker), FamilyDescription)
    except (ValueError, json.JSONDecodeError) as error:
        last = stderr.decode("utf-8", "replace").strip().rpartition("\n")[2]
        raise InvalidData(f"the family does not say what its tasks are: {last or error}", where=where) from error
