"""From a task's source to the base in the cache, made once and shared by all runs."""

from collections.abc import Callable
from pathlib import Path
from typing import Final

from proctor.core.errors import InvalidData
from proctor.core.files import cache_root, file_lock, sync_directory, whole_folder, write_atomic
from proctor.core.record import read_record, to_json
from proctor.core.task import DirectorySource, RepositorySource
from proctor.workspaces.base import BaseTree, BaseTreeInfo
from proctor.workspaces.directories import commit_directory, snapshot_directory
from proctor.workspaces.git import make_repository
from proctor.workspaces.history import pack_history
from proctor.workspaces.mirrors import canonical_url, checked_commit, ensure_mirror, mirror_name

_BUILD_SECONDS: Final = 3600.0
_FACTS: Final = "base.json"
_REPOSITORY: Final = "git"


def base_of(source: RepositorySource | DirectorySource, *, cache: Path | None = None) -> BaseTree:
    """The base made from this source; it is made now if it is not in the cache.

    With the base or the commit in the cache, nothing is asked of the network.

    Raises:
        InvalidData: there is no such repository, commit or directory.
        RetryableError: the repository cannot be fetched.
    """
    cache = (cache or cache_root()).absolute()
    if isinstance(source, RepositorySource):
        return _base_of_repository(source, cache)
    return _base_of_directory(source, cache)


def _base_of_repository(source: RepositorySource, cache: Path) -> BaseTree:
    url = canonical_url(source.url)
    commit = checked_commit(source.commit, where=source.url)
    family = cache / "bases" / mirror_name(url)

    def fill(git_dir: Path) -> BaseTreeInfo:
        mirror = ensure_mirror(url, commit, cache=cache)
        others = [base for home in family.glob("[0-9a-f]*") if (base := _load(home)) is not None]
        return pack_history(mirror, commit, git_dir, existing=others)

    return _load(family / commit) or _build(family / commit, commit, fill)


def _base_of_directory(source: DirectorySource, cache: Path) -> BaseTree:
    root = Path(source.path).resolve()
    if not root.is_dir():
        raise InvalidData("no such directory", where=source.path)
    found = snapshot_directory(root)
    home = cache / "bases" / "directories" / found.digest
    return _load(home) or _build(home, "", lambda git_dir: commit_directory(root, found, git_dir))


def _load(home: Path) -> BaseTree | None:
    if not (home / _FACTS).exists():
        return None
    return BaseTree(git_dir=home / _REPOSITORY, facts=read_record(home / _FACTS, BaseTreeInfo))


def _build(home: Path, commit: str, fill: Callable[[Path], BaseTreeInfo]) -> BaseTree:
    """Make a base aside and rename it into place: it is whole or not there."""
    home.parent.mkdir(parents=True, exist_ok=True)
    with file_lock(home.with_name(f"{home.name}.lock"), what=f"the base {home.name}", wait_seconds=_BUILD_SECONDS):
        if (made := _load(home)) is not None:
            return made
        with whole_folder(home) as partial:
            make_repository(partial / _REPOSITORY, commit=commit)
            facts = fill(partial / _REPOSITORY)
            write_atomic(partial / _FACTS, to_json(facts))
        sync_directory(home.parent)
        return BaseTree(git_dir=home / _REPOSITORY, facts=facts)
