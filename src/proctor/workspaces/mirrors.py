"""The cache of repositories: one bare mirror each, fetched once and shared by all runs on this machine."""

import hashlib
import os
import re
import shutil
from pathlib import Path
from typing import Final

from proctor.core.errors import InvalidData, RetryableError
from proctor.core.files import file_lock, whole_folder
from proctor.workspaces.git import GitResult, make_repository, run_git

FETCH_SECONDS: Final = 3600.0
_COMMIT: Final = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_REMOTE: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://|[^/:]+:[^/\\]")
_MAX_LOOSE_OBJECTS: Final = 500
_BRANCHES_AND_TAGS: Final = ("+refs/heads/*:refs/heads/*", "+refs/tags/*:refs/tags/*")


def checked_commit(commit: str, *, where: object) -> str:
    """A commit as git writes it; names and abbreviations could mean another one tomorrow."""
    lower = commit.strip().lower()
    if not _COMMIT.fullmatch(lower):
        raise InvalidData(f"not a full commit id: {commit!r}", where=where, fix="give all 40 (or 64) hex digits")
    return lower


def mirror_name(url: str) -> str:
    """The name of a repository's mirror in the cache: readable, and no two repositories share one."""
    public = public_url(url)
    readable = re.sub(r"[^A-Za-z0-9._-]+", "_", public.removesuffix(".git").rstrip("/"))[-60:].lstrip("._-")
    return f"{readable}-{hashlib.sha256(os.fsencode(public)).hexdigest()[:16]}"


def public_url(text: str) -> str:
    """A text without the logins of the URLs in it."""
    return re.sub(r"://[^/@\s]*@", "://", text)


def is_remote(url: str) -> bool:
    """Whether this is an address for git, and no path."""
    return _REMOTE.match(url) is not None and not Path(url).exists()


def canonical_url(url: str) -> str:
    """A URL as it is, a local path in full.

    Raises:
        InvalidData: there is nothing at this path, or git would take it for an option or a helper program.
    """
    if url.startswith("-") or "::" in url:
        raise InvalidData("not the address of a repository", where=url)
    if is_remote(url):
        return url
    path = Path(url).resolve()
    if not path.is_dir():
        raise InvalidData("no repository there", where=url, fix="give a URL or an existing directory")
    return str(path)


def ensure_mirror(url: str, commit: str, *, cache: Path) -> Path:
    """The mirror of a repository, with this commit in it.

    When the commit is there already, nothing is asked of the network, and no lock is taken.

    Args:
        url: as `canonical_url` gives it.
        commit: in full.
        cache: Proctor's cache directory.

    Raises:
        InvalidData: the repository has no such commit.
        RetryableError: it cannot be fetched.
    """
    mirror = cache / "mirrors" / mirror_name(url)
    if _has_commit(mirror, commit):
        return mirror
    mirror.parent.mkdir(parents=True, exist_ok=True)
    lock = mirror.with_name(f"{mirror.name}.lock")
    with file_lock(lock, what=f"the mirror of {public_url(url)}", wait_seconds=FETCH_SECONDS) as descriptor:
        if not mirror.exists():
            _clone(url, commit, mirror, descriptor)
        if _has_commit(mirror, commit):
            return mirror
        _fetch_missing(url, commit, mirror, descriptor)
    if not _has_commit(mirror, commit):
        raise InvalidData(f"has no commit {commit}", where=public_url(url))
    return mirror


def update_mirror(url: str, *, cache: Path) -> tuple[Path, str]:
    """The mirror of a repository as it is now, and the name of its default branch there.

    Raises:
        RetryableError: it cannot be fetched.
    """
    mirror = cache / "mirrors" / mirror_name(url)
    mirror.parent.mkdir(parents=True, exist_ok=True)
    lock = mirror.with_name(f"{mirror.name}.lock")
    with file_lock(lock, what=f"the mirror of {public_url(url)}", wait_seconds=FETCH_SECONDS) as descriptor:
        if mirror.exists():
            _fetch(url, _BRANCHES_AND_TAGS, mirror, descriptor, required=True)
        else:
            _clone(url, "", mirror, descriptor)
    listed = run_git(["ls-remote", "--symref", url, "HEAD"], git_dir=mirror, timeout=FETCH_SECONDS, network=True)
    found = re.search(rb"^ref: (refs/heads/\S+)\tHEAD$", listed.output, re.MULTILINE)
    return mirror, found[1].decode() if found else "HEAD"


def _has_commit(mirror: Path, commit: str) -> bool:
    if not mirror.is_dir():
        return False
    return run_git(["cat-file", "-e", f"{commit}^{{commit}}"], git_dir=mirror, expected={0, 1, 128}).code == 0


def _clone(url: str, commit: str, mirror: Path, lock: int) -> None:
    with whole_folder(mirror) as partial:
        make_repository(partial, commit=commit)
        if is_remote(url) or not _copy_repository(url, partial, lock):
            _fetch(url, _BRANCHES_AND_TAGS, partial, lock, required=True)


def _copy_repository(path: str, mirror: Path, lock: int) -> bool:
    """Fill an empty mirror from a repository on this machine, whose packs are copied as they are; whether it worked.

    A fetch would go through all objects twice, to pack them and to index them.
    """
    copy = mirror / "copy"
    done = run_git(
        ["clone", "--quiet", "--bare", "--no-hardlinks", "--template=", path, str(copy)],
        git_dir=mirror,
        expected=range(256),
        timeout=FETCH_SECONDS,
        pass_fds=[lock],
    )
    copied = done.code == 0 and not _is_better_fetched(copy / "objects")
    if copied:
        for name in ("objects", "packed-refs", "shallow"):
            if (copy / name).exists():
                (copy / name).rename(mirror / name)
    shutil.rmtree(copy, ignore_errors=True)
    return copied


def _is_better_fetched(objects: Path) -> bool:
    """A fetch finds the deltas between objects that are in no pack, says what a partial clone lacks, and brings what a
    repository borrows from another one.
    """
    loose = sum(len(list(folder.iterdir())) for folder in objects.glob("??"))
    borrows = (objects / "info/alternates").exists()
    return borrows or loose > _MAX_LOOSE_OBJECTS or any(objects.glob("pack/*.promisor"))


def _fetch_missing(url: str, commit: str, mirror: Path, lock: int) -> None:
    for stale in [*mirror.glob("*.lock"), *mirror.glob("refs/**/*.lock"), *mirror.glob("objects/pack/tmp_*")]:
        stale.unlink()  # of a fetch that was killed: we hold the lock, so nobody is writing
    wanted = (f"{commit}:refs/proctor/{commit}", _BRANCHES_AND_TAGS[1])
    if _fetch(url, wanted, mirror, lock, required=False).code != 0:
        # Some servers give out only what their branches and tags reach.
        _fetch(url, _BRANCHES_AND_TAGS, mirror, lock, required=True)


def _fetch(url: str, refspecs: tuple[str, ...], mirror: Path, lock: int, *, required: bool) -> GitResult:
    done = run_git(
        ["fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--update-shallow", url, *refspecs],
        git_dir=mirror,
        expected=range(256),
        timeout=FETCH_SECONDS,
        network=True,
        pass_fds=[lock],
    )
    if done.code != 0 and required:
        what = f"cannot fetch it: {public_url(done.error_message)}"
        if not _REMOTE.match(url):
            raise InvalidData(what, where=url)
        raise RetryableError(what, where=public_url(url), fix="check the address and the network")
    run_git(["pack-refs", "--all"], git_dir=mirror)
    return done
