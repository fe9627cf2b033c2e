"""Where fetched data sets are kept: ``<cache>/data/<benchmark>/<split>/``, whole or not at all."""

import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from proctor.core.benchmark import DatasetInfo
from proctor.core.errors import UsageError
from proctor.core.files import cache_root, file_lock
from proctor.core.record import from_json, to_json

_RECORD_FILE: Final = "fetched.json"
_FILES_DIR: Final = "files"


def store_dataset(
    benchmark: str,
    split: str,
    fill: Callable[[Path], None],
    *,
    origin: str,
    revision: str,
    tasks: int,
) -> DatasetInfo:
    """Keep what `fill` writes into an empty folder; what was there before stays if that fails.

    The same files from another place have the same digest, so that runs on them compare.
    """
    home = _dataset_dir(benchmark, split)
    home.parent.mkdir(parents=True, exist_ok=True)
    with file_lock(home.parent / f".{split}.lock", what=f"the data of {benchmark} ({split})"):
        draft = Path(tempfile.mkdtemp(prefix=f".{split}.", dir=home.parent))
        try:
            files = draft / _FILES_DIR
            files.mkdir()
            fill(files)
            record = DatasetInfo(
                benchmark=benchmark,
                split=split,
                origin=origin,
                revision=revision,
                digest=tree_digest(files),
                tasks=tasks,
                fetched_at=datetime.now(UTC).isoformat(timespec="seconds"),
            )
            (draft / _RECORD_FILE).write_bytes(to_json(record))
            _replace_dataset(draft, home)
        finally:
            shutil.rmtree(draft, ignore_errors=True)
    return record


def stored_dataset(benchmark: str, split: str) -> tuple[DatasetInfo, Path]:
    """What was fetched, and the folder with its files.

    Raises:
        UsageError: nothing was.
        InvalidData: the record beside it cannot be read.
    """
    home = _dataset_dir(benchmark, split)
    try:
        raw = (home / _RECORD_FILE).read_bytes()
    except OSError:
        raise UsageError(
            f"the data of {benchmark} ({split}) is not on this machine",
            fix=f"bring it here: `proctor bench fetch {benchmark} --split {split}`, with --from PATH for a local copy",
        ) from None
    return from_json(raw, DatasetInfo, where=home / _RECORD_FILE), home / _FILES_DIR


def stored_splits(benchmark: str) -> tuple[str, ...]:
    """The splits of a benchmark that were fetched, by their names."""
    folder = cache_root() / "data" / benchmark
    return tuple(sorted(file.parent.name for file in folder.glob(f"[!.]*/{_RECORD_FILE}")))


def tree_digest(folder: Path) -> str:
    """Identifies the files in a folder by their names and bytes."""
    whole = hashlib.sha256()
    for file in sorted(path for path in folder.rglob("*") if path.is_file()):
        with file.open("rb") as stream:
            content = hashlib.file_digest(stream, "sha256").hexdigest()
        name = os.fsencode(file.relative_to(folder))
        whole.update(b"%d:%s%s" % (len(name), name, content.encode()))
    return whole.hexdigest()


def _dataset_dir(benchmark: str, split: str) -> Path:
    return cache_root() / "data" / benchmark / split


def _replace_dataset(draft: Path, target: Path) -> None:
    """Two renames, as a directory cannot be replaced in one; a crash between them leaves nothing to be read wrongly."""
    if target.exists():
        old = draft.with_name(f"{draft.name}.old")
        target.rename(old)
        draft.rename(target)
        shutil.rmtree(old, ignore_errors=True)
    else:
        draft.rename(target)
