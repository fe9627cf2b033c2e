"""Artifacts: files that are copied out of the agent's environment, kept as an archive, and put into the verifier's.

The agent decides what they hold, so nothing in them may lead anywhere: links are kept as links, and only where they
stay in the tree that they are in; devices and sockets are left behind; sizes are bounded.
"""

import asyncio
import io
import os
import posixpath
import tarfile
import tempfile
from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final, Literal

from msgspec import field

from proctor.benchmarks.harbor.task import MAIN_SERVICE, Artifact
from proctor.benchmarks.harbor.verdict_rule import HarborEvidence
from proctor.core.environment import Environment
from proctor.core.errors import InfrastructureError, InvalidData
from proctor.core.record import Record, from_json, to_json
from proctor.core.trees import is_directory
from proctor.core.verdict import Finding
from proctor.grading.finding_codes import EnvironmentCode
from proctor.grading.state import ShellResult

ArtifactKind = Literal["file", "directory", "missing"]
MAX_ARTIFACT_BYTES: Final = 500_000_000
_MANIFEST: Final = "manifest.json"
_MAX_FINDINGS: Final = 20
_KEPT_MODE: Final = 0o777


class CollectedArtifact(Record):
    """One artifact in the archive.

    Attributes:
        source: where it was, and will be.
        member: its name in the archive.
        kind: a file, a folder, or nothing that could be copied.
    """

    source: str
    member: str
    kind: ArtifactKind
    service: str = MAIN_SERVICE


class StepSubmission(Record):
    """What was submitted for one step: artifacts for its own verifier, or what a shared one has seen already.

    Attributes:
        collected: how the commands ended that ran before the artifacts were copied.
        refused_hosts: of the agent's phase.
    """

    name: str
    artifacts: tuple[CollectedArtifact, ...] = ()
    findings: tuple[Finding, ...] = ()
    collected: tuple[ShellResult, ...] = ()
    refused_hosts: tuple[str, ...] = ()
    evidence: HarborEvidence | None = None


class ArtifactFolders(Record):
    """Where the folders of artifacts are, without links, by the service and path of each artifact."""

    folders: dict[str, str] = field(default_factory=dict)

    def of(self, artifact: Artifact) -> str | None:
        """Where an artifact's folder was; None: nobody knows."""
        return self.folders.get(_folder_key(artifact))


class ArtifactManifest(Record):
    """What an archive holds."""

    steps: tuple[StepSubmission, ...]
    deviations: tuple[str, ...] = field(default_factory=tuple)
    schema_version: Literal["proctor.harbor_submission@1"] = "proctor.harbor_submission@1"


async def artifact_folders(environment: Environment, artifacts: Iterable[Artifact]) -> ArtifactFolders:
    """Where the folders of artifacts are before an agent works: a link on the way to one may lead elsewhere later."""
    folders: dict[str, str] = {}
    for one in artifacts:
        try:
            folders[_folder_key(one)] = await _real_folder(environment, one)
        except InfrastructureError:
            continue  # a service that is not there gives nothing later either
    return ArtifactFolders(folders=folders)


def _folder_key(artifact: Artifact) -> str:
    return f"{artifact.service}:{artifact.source}"


async def _real_folder(environment: Environment, artifact: Artifact) -> str:
    folder = posixpath.dirname(artifact.source.rstrip("/"))
    return folder if folder == "/" else await _place_of(environment, artifact).real_path(folder)


def _place_of(environment: Environment, artifact: Artifact) -> Environment:
    return environment if artifact.service == MAIN_SERVICE else environment.service(artifact.service)


async def copy_artifact(
    environment: Environment, artifact: Artifact, target: Path, max_bytes: int, folder: str | None = None
) -> tuple[ArtifactKind, list[Finding]]:
    """Copy one artifact out to `target`; what it is, and what of it was left behind.

    Args:
        environment: the agent's.
        artifact: what to copy.
        target: where to.
        max_bytes: of it.
        folder: where its folder was before the agent worked. The engine, which copies, may read all: through a link the
            agent would be given files that it cannot read, or of another service with which it shares a volume.

    Raises:
        LimitReached: it is larger than allowed.
    """
    try:
        if folder is not None and await _real_folder(environment, artifact) != folder:
            return "missing", [_left_behind(artifact.source, "a link on the way to it was not there before")]
        await _place_of(environment, artifact).get(artifact.source, target, max_bytes=max_bytes)
    except (FileNotFoundError, InfrastructureError) as error:
        if isinstance(error, InfrastructureError) and artifact.service == MAIN_SERVICE:
            raise
        return "missing", []
    return await asyncio.to_thread(_copied_kind, target, artifact)


def _copied_kind(target: Path, artifact: Artifact) -> tuple[ArtifactKind, list[Finding]]:
    if target.is_symlink():
        target.unlink()
        return "missing", [_left_behind(artifact.source, "it is a link")]
    if not is_directory(target):
        return ("file", []) if target.is_file() else ("missing", [])
    return "directory", list(_keep_plain(target, artifact))


def _keep_plain(tree: Path, artifact: Artifact) -> Iterator[Finding]:
    """Remove what is excluded and every link that leads out of the tree; what was removed of the latter."""
    for parent, folders, files in os.walk(tree, topdown=True):
        for name in sorted((*folders, *files)):
            path = Path(parent, name)
            below = path.relative_to(tree).as_posix()
            if any(fnmatchcase(below, one) or fnmatchcase(name, one) for one in artifact.exclude):
                _remove(path)
                folders[:] = [folder for folder in folders if folder != name]
            elif path.is_symlink():
                inside = _inside_target(tree, path, artifact.source)
                path.unlink()
                folders[:] = [folder for folder in folders if folder != name]
                if inside is None:
                    yield _left_behind(f"{artifact.source}/{below}", "it leads out of what was copied")
                else:
                    path.symlink_to(inside)


def _inside_target(tree: Path, link: Path, source: str) -> str | None:
    """What a link leads to, relative to itself, where that is in the same tree; None: it leads elsewhere.

    An absolute link is taken as the environment has it.
    """
    text = os.fspath(link.readlink())
    here = posixpath.join(source, link.relative_to(tree).as_posix())
    wanted = posixpath.normpath(posixpath.join(posixpath.dirname(here), text))
    root = source.rstrip("/")
    if wanted != root and not wanted.startswith(f"{root}/"):
        return None
    return posixpath.relpath(wanted, posixpath.dirname(here))


def _remove(path: Path) -> None:
    if path.is_symlink() or not path.is_dir():
        path.unlink()
        return
    for child in path.iterdir():
        _remove(child)
    path.rmdir()


def _left_behind(path: str, why: str) -> Finding:
    code = EnvironmentCode.ARTIFACT_LEFT
    return Finding(code=code.value, path=path, detail=f"{code.meaning}: {why}")


def write_archive(manifest: ArtifactManifest, trees: Path) -> bytes:
    """The submission: the manifest, and the members below `trees`, with modes and nothing else of who owned them."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as archive:
        data = to_json(manifest)
        info = tarfile.TarInfo(_MANIFEST)
        info.size = len(data)
        archive.addfile(info, io.BytesIO(data))
        for step in manifest.steps:
            for one in step.artifacts:
                if one.kind != "missing":
                    archive.add(trees / one.member, arcname=one.member, filter=_plain_member)
    return buffer.getvalue()


def _plain_member(info: tarfile.TarInfo) -> tarfile.TarInfo | None:
    if not (info.isreg() or info.isdir() or info.issym()):
        return None
    info.uid = info.gid = 0
    info.uname = info.gname = ""
    info.mode &= _KEPT_MODE
    info.mtime = int(info.mtime)
    return info


def read_archive(content: bytes, into: Path) -> ArtifactManifest:
    """Unpack a submission; what it holds.

    Raises:
        InvalidData: it is none, or would write elsewhere.
    """
    try:
        with tarfile.open(fileobj=io.BytesIO(content), mode="r:") as archive:
            stream = archive.extractfile(_MANIFEST)
            if stream is None:
                raise InvalidData("the artifacts have no manifest")
            manifest = from_json(stream.read(), ArtifactManifest)
            archive.extractall(into, filter="data")
    except (tarfile.TarError, KeyError, OSError, ValueError) as error:
        raise InvalidData(f"these are not artifacts that can be unpacked: {error}") from error
    return manifest


async def put_artifact(environment: Environment, one: CollectedArtifact, trees: Path) -> None:
    """Put an artifact where it was; a folder replaces what the image has there."""
    if one.kind == "missing":
        return
    if one.kind == "directory":
        script = 'mkdir -p "$1" && find "$1" -mindepth 1 -delete'
        await environment.exec(["/bin/sh", "-c", script, "sh", one.source], cwd="/", timeout=120)
    await environment.put(trees / one.member, one.source)


async def copy_artifacts(
    environment: Environment,
    artifacts: tuple[Artifact, ...],
    trees: Path,
    prefix: str,
    *,
    of_others: tuple[str, ...] = (),
    folders: ArtifactFolders = ArtifactFolders(),  # noqa: B008 - a frozen record
) -> tuple[tuple[CollectedArtifact, ...], tuple[Finding, ...]]:
    """Copy artifacts out below `trees`, all of them within one bound.

    Args:
        environment: the agent's.
        artifacts: what to copy.
        trees: where to.
        prefix: of the members' names.
        of_others: paths that another service is to give, and this one therefore does not, also where the other has
            nothing there.
        folders: where the artifacts' folders were before the agent worked.

    Raises:
        LimitReached: they are larger than allowed; the agent's own failure.
    """
    left, made, findings = MAX_ARTIFACT_BYTES, [], list[Finding]()
    for number, artifact in enumerate(artifacts):
        member = f"{prefix}{number}"
        kind, found = await copy_artifact(environment, artifact, trees / member, left, folders.of(artifact))
        findings += found
        findings += await asyncio.to_thread(_remove_paths_of_others, trees / member, artifact.source, of_others)
        left -= _size(trees / member)
        made.append(CollectedArtifact(source=artifact.source, member=member, kind=kind, service=artifact.service))
    return tuple(made), tuple(findings[:_MAX_FINDINGS])


def _remove_paths_of_others(tree: Path, source: str, of_others: tuple[str, ...]) -> list[Finding]:
    """Remove what lies at those paths of a copied tree, and links on the way to them."""
    found = []
    for path in of_others:
        below = posixpath.relpath(path, source)
        if below == "." or below.startswith("../"):
            continue
        place, parts = tree, below.split("/")
        for number, part in enumerate(parts, start=1):
            place /= part
            if place.is_symlink() or (number == len(parts) and place.exists()):
                _remove(place)
                found.append(_left_behind(path, "another service gives it"))
                break
    return found


def _size(path: Path) -> int:
    if path.is_symlink() or not path.exists():
        return 0
    if path.is_file():
        return path.stat().st_size + 512
    return sum(_size(child) for child in path.iterdir()) + 512


def scratch_trees() -> "tempfile.TemporaryDirectory[str]":
    """A folder for what is copied out, or unpacked."""
    return tempfile.TemporaryDirectory(prefix="proctor-artifacts-")
