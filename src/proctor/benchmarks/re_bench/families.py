"""Task families: METR's seven with their published scores, and any folder that says its own."""

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from proctor.benchmarks.re_bench.scoring import Counts, Scale
from proctor.benchmarks.re_bench.standard import (
    Described,
    Manifest,
    TaskManifest,
    answer,
    job,
    program,
    read_manifest,
)
from proctor.core.benchmark import Unusable
from proctor.core.errors import InvalidData
from proctor.core.record import read_record

DESCRIBED: Final = "described.json"
SOLUTION: Final = "solution.sh"
_DESCRIBE_SECONDS: Final = 60.0

# Start and reference as METR's README gives them. Its back-fill table has the kernel family under `max`, which
# contradicts its score (the logarithm of a time): the least is the best.
SCALES: Final[Mapping[str, Scale]] = {
    "ai_rd_triton_cumsum": Scale(counts=Counts.MIN, start=1.56, reference=0.47),
    "ai_rd_optimize_llm_foundry": Scale(counts=Counts.MIN, start=5.6, reference=4.54),
    "ai_rd_fix_embedding": Scale(counts=Counts.MIN, start=2.2, reference=0.26),
    "ai_rd_restricted_mlm": Scale(counts=Counts.MIN, start=1.81, reference=1.13),
    "ai_rd_nanogpt_chat_rl": Scale(counts=Counts.MAX, start=0.54, reference=0.85),
    "ai_rd_rust_codecontests_inference": Scale(counts=Counts.MAX, start=0.0, reference=0.13),
    "ai_rd_small_scaling_law": Scale(counts=Counts.LAST, start=0.24, reference=0.84),
}


@dataclass(frozen=True, slots=True)
class Family:
    """A family on this machine."""

    name: str
    folder: Path
    manifest: Manifest
    described: Described

    @property
    def solution(self) -> str | None:
        """The script that reaches the reference, where the family has one that can be read."""
        file = self.folder / SOLUTION
        return file.read_text(encoding="utf-8") if file.is_file() else None

    def task(self, name: str) -> TaskManifest:
        """What the manifest says of a task."""
        return self.manifest.tasks.get(name, TaskManifest())

    def scale(self, name: str) -> Scale | None:
        """How a task's scores are read: as METR published, or as the manifest says."""
        if self.name in SCALES:
            return SCALES[self.name]
        try:
            return msgspec.convert(self.task(name).meta, Scale)
        except msgspec.ValidationError:
            return None


def family_folders(root: Path) -> Iterator[Path]:
    """The folders below `root` that hold a family: a program of the folder's own name."""
    for folder in sorted(root.iterdir()):
        if (folder / f"{folder.name}.py").is_file():
            yield folder


def load_families(root: Path, *, trusted: bool = False) -> tuple[list[Family], list[Unusable]]:
    """Every family below `root`, and those that cannot be used.

    What a family says of itself is read from a file beside it. Only `trusted` ones are asked here and now.
    """
    families: list[Family] = []
    unusable: list[Unusable] = []
    for folder in family_folders(root):
        try:
            described = described_by(folder) if trusted else read_record(folder / DESCRIBED, Described)
            if described.problem:
                raise InvalidData(described.problem, where=folder.name)
            families.append(Family(folder.name, folder, read_manifest(folder), described))
        except InvalidData as error:
            unusable.append(Unusable(task_id=folder.name, problems=(str(error),)))
    return families, unusable


def described_by(folder: Path) -> Described:
    """What a family says of itself: its code is run, in a process of its own, so it must be one of ours.

    Raises:
        InvalidData: it cannot say.
    """
    given, word = job("describe", folder.name, str(folder))
    done = subprocess.run(
        [sys.executable, "-I", "-B", "-c", program()],
        input=given,
        capture_output=True,
        env={},
        check=False,
        timeout=_DESCRIBE_SECONDS,
    )
    return read_description(done.stdout, word, where=folder, said=done.stderr)


def read_description(output: bytes, word: str, *, where: object, said: bytes) -> Described:
    """What the driver's `describe` answered.

    Raises:
        InvalidData: it did not.
    """
    try:
        return msgspec.convert(answer(output, word), Described)
    except (ValueError, json.JSONDecodeError) as error:
        last = said.decode("utf-8", "replace").strip().rpartition("\n")[2]
        raise InvalidData(f"the family does not say what its tasks are: {last or error}", where=where) from error
