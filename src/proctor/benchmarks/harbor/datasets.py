"""Where tasks lie: a folder of tasks, or a data set's file that names them."""

import re
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from proctor.benchmarks.data import download_from_git
from proctor.benchmarks.harbor.task_format import CONFIG, package_digest
from proctor.core.errors import InvalidData
from proctor.core.record import Record
from proctor.core.user_files import parse_document, parse_json, parse_toml

DATASET_FILE: Final = "dataset.toml"
MAX_DEPTH: Final = 4
_NAME: Final = re.compile(r"[^A-Za-z0-9._-]+")


class DatasetTask(Record):
    """A task that a data set's file names: by its name and digest, or by a path, in a repository or beside the file."""

    name: str = ""
    digest: str | None = None
    path: str | None = None
    git_url: str | None = None
    git_commit_id: str | None = None


class DatasetFile(Record):
    """A data set's file."""

    name: str
    tasks: tuple[DatasetTask, ...]
    version: str | None = None


def is_tasks(place: Path) -> bool:
    """Whether a path is a task, a folder of tasks, or a data set's file."""
    if place.is_dir():
        return (place / DATASET_FILE).is_file() or next(_configs(place), None) is not None
    return place.is_file() and (place.suffix == ".toml" or (place.suffix == ".json" and _is_registry(place)))


def dataset_name(place: Path) -> str:
    """What a folder or file of tasks is called, for results."""
    listing = _listing(place)
    name = place.resolve().name.removesuffix(".toml") if listing is None else read_dataset(listing).name
    return _NAME.sub("-", name).strip("-.") or "harbor"


def local_tasks(place: Path) -> list[Path]:
    """The folders of the tasks at a path, in the order of their names.

    Raises:
        InvalidData: there is none, or one that a data set's file names is not beside it, or is another.
    """
    listing = _listing(place)
    if listing is None:
        found = sorted({file.parent for file in _configs(place)}, key=lambda folder: folder.name)
        if not found:
            raise InvalidData(f"no task is here: no folder has a {CONFIG}", where=place)
        return found
    return [_beside(listing, task) for task in read_dataset(listing).tasks]


def fetch_listed(listing: Path, split: str | None, into: Path, log: Callable[[str], None]) -> list[Path]:
    """The folders of the tasks that a data set's file names, those in repositories fetched below `into`.

    Raises:
        InvalidData: one is not where the file says.
        InfrastructureError: a repository cannot be reached.
    """
    repositories: dict[tuple[str, str | None], Path] = {}
    folders = []
    for task in read_dataset(listing, split).tasks:
        if task.git_url is None:
            folders.append(_beside(listing, task))
            continue
        key = (task.git_url, task.git_commit_id)
        if key not in repositories:
            repositories[key] = Path(tempfile.mkdtemp(dir=into))
            log(f"fetching {task.git_url}")
            download_from_git(task.git_url, repositories[key], revision=task.git_commit_id)
        folder = _below(repositories[key], task.path or "", listing)
        folders.append(_checked(folder, task, listing))
    return folders


def read_dataset(file: Path, split: str | None = None) -> DatasetFile:
    """Read ``dataset.toml``, or a registry with several data sets, of which `split` names one: NAME, or NAME@VERSION.

    Raises:
        InvalidData: it is none.
    """
    if file.suffix == ".toml":
        raw = parse_document(file, "it", parse_toml, "TOML", error=InvalidData)
        dataset = raw.get("dataset")
        if not isinstance(dataset, dict):
            raise InvalidData("there is no [dataset]", where=file)
        return _convert({**dataset, "tasks": raw.get("tasks", [])}, file)
    known = [_convert(entry, file) for entry in parse_document(file, "it", parse_json, "JSON", error=InvalidData)]
    wanted = [one for one in known if split in {one.name, f"{one.name}@{one.version}"}] or known
    if len(wanted) != 1:
        names = ", ".join(f"{one.name}@{one.version}" if one.version else one.name for one in wanted)
        raise InvalidData("it has several data sets", where=file, fix=f"choose one with --split: {names}")
    return wanted[0]


def copy_task(folder: Path, into: Path) -> None:
    """Copy a task's folder below `into`; one whose folder's name is taken gets a number."""
    name, number = folder.name, 1
    while (into / name).exists():
        number += 1
        name = f"{folder.name}-{number}"
    shutil.copytree(folder, into / name, symlinks=True)


def _listing(place: Path) -> Path | None:
    if place.is_dir():
        return place / DATASET_FILE if (place / DATASET_FILE).is_file() else None
    return place


def _configs(place: Path) -> Iterator[Path]:
    for depth in range(MAX_DEPTH):
        yield from place.glob(f"{'*/' * depth}{CONFIG}")


def _is_registry(file: Path) -> bool:
    with file.open("rb") as stream:
        return stream.read(64).lstrip().startswith(b"[")


def _convert(raw: Any, file: Path) -> DatasetFile:
    try:
        return msgspec.convert(raw, DatasetFile)
    except msgspec.ValidationError as error:
        raise InvalidData(f"this is no data set of Harbor's: {error}", where=file) from error


def _beside(listing: Path, task: DatasetTask) -> Path:
    root = listing.parent
    if task.git_url is not None:
        raise InvalidData(
            f"{task.name} is in a repository",
            where=listing,
            fix=f"fetch it: `proctor bench fetch harbor --from {listing}`",
        )
    if task.path is not None:
        return _checked(_below(root, task.path, listing), task, listing)
    short = task.name.rpartition("/")[2]
    candidates: Sequence[Path] = [file.parent for file in _configs(root)]
    for folder in (*(one for one in candidates if one.name == short), *candidates):
        if _task_name(folder) == task.name or folder.name == short:
            return _checked(folder, task, listing)
    raise InvalidData(f"the task {task.name} is not beside it", where=listing)


def _task_name(folder: Path) -> str:
    raw = parse_document(folder / CONFIG, "it", parse_toml, "TOML", error=InvalidData)
    table = raw.get("task")
    return str(table.get("name") or folder.name) if isinstance(table, dict) else folder.name


def _below(root: Path, path: str, listing: Path) -> Path:
    folder = root / path
    if not folder.resolve().is_relative_to(root.resolve()):
        raise InvalidData(f"{path!r} leads out of its folder", where=listing)
    return folder


def _checked(folder: Path, task: DatasetTask, listing: Path) -> Path:
    if not (folder / CONFIG).is_file():
        raise InvalidData(f"there is no task at {task.path or folder.name}", where=listing)
    wanted = (task.digest or "").removeprefix("sha256:")
    if wanted and package_digest(folder) != wanted:
        raise InvalidData(f"the files of {task.name or folder.name} are not those of its digest", where=listing)
    return folder
