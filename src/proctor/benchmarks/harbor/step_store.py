"""What was submitted for the steps of a task, kept in an attempt's folder until the last of them is done."""

from pathlib import Path
from typing import Final

from proctor.benchmarks.harbor.artifacts import ArtifactFolders, ArtifactManifest
from proctor.benchmarks.harbor.step_rule import HarborSteps, StepEvidence
from proctor.benchmarks.harbor.task import HarborTask
from proctor.benchmarks.harbor.verdict_rule import HarborEvidence
from proctor.core.record import read_record, to_json

_STEPS_FILE: Final = "steps.json"
_FOLDERS_FILE: Final = "artifact_folders.json"


def read_steps(folder: Path) -> ArtifactManifest:
    """The steps that are done."""
    file = folder / _STEPS_FILE
    return read_record(file, ArtifactManifest) if file.exists() else ArtifactManifest(steps=())


def write_steps(folder: Path, steps: ArtifactManifest) -> None:
    """Keep the steps that are done."""
    (folder / _STEPS_FILE).write_bytes(to_json(steps))


def read_artifact_folders(folder: Path) -> ArtifactFolders:
    """Where artifacts were before the agent worked."""
    return read_record(folder / _FOLDERS_FILE, ArtifactFolders)


def write_artifact_folders(folder: Path, folders: ArtifactFolders) -> None:
    """Keep where artifacts are before the agent works."""
    (folder / _FOLDERS_FILE).write_bytes(to_json(folders))


def evidence_of(task: HarborTask, manifest: ArtifactManifest) -> HarborEvidence | HarborSteps:
    """What the verifiers saw: of a task's only step, or of all of its steps."""
    seen = [StepEvidence(name=one.name, evidence=one.evidence) for one in manifest.steps if one.evidence is not None]
    if not task.has_steps and seen:
        return seen[0].evidence
    return HarborSteps(task_id=task.name, steps=tuple(seen), strategy=task.strategy, planned=len(task.steps))
