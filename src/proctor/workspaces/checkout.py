"""A workspace: a private copy of a base's files, with a git repository that knows the past alone."""

import os
import shutil
from pathlib import Path
from typing import Final

from proctor.core.errors import UsageError
from proctor.core.trees import on_disk
from proctor.workspaces.base import BaseTree
from proctor.workspaces.git import make_repository, run_git

# So that an agent can commit; what it commits is never looked at.
_IDENTITY: Final = "[user]\n\tname = Agent\n\temail = agent@localhost\n"


def check_out(base: BaseTree, target: Path) -> None:
    """Make `target` a workspace. It appears whole or not at all.

    Nothing in it is shared with the cache. Files have exactly the bytes that git has: no filter runs, line ends
    stay, submodules are empty directories and LFS files are pointers.

    Raises:
        UsageError: there is something at `target` already.
    """
    target = target.absolute()
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise UsageError("a workspace needs a new or empty directory", where=target)
    target.parent.mkdir(parents=True, exist_ok=True)
    partial = target.with_name(f".{target.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    try:
        git_dir = partial / ".git"
        make_repository(git_dir, commit=base.commit, bare=False)
        with (git_dir / "config").open("a") as config:
            config.write(_IDENTITY)
        packs = [f"objects/pack/{pack.name}" for pack in (base.git_dir / "objects" / "pack").iterdir()]
        for name in ("packed-refs", "shallow", "refs/heads/main", *packs):
            if (base.git_dir / name).exists():
                (git_dir / name).parent.mkdir(parents=True, exist_ok=True)
                _copy(base.git_dir / name, git_dir / name)
        run_git(["read-tree", "-m", "-u", base.commit], git_dir=git_dir, work_tree=partial, timeout=600.0)
        _restore_modes_and_empty_directories(base, partial)
        partial.replace(target)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _copy(source: Path, target: Path) -> None:
    """A copy that shares blocks where the file system can, and never the file itself."""
    with source.open("rb") as read, target.open("wb") as written:
        try:
            while os.copy_file_range(read.fileno(), written.fileno(), 1 << 30):
                pass
        except (AttributeError, OSError):  # not Linux, or a file system that cannot
            read.seek(0)
            written.seek(0)
            shutil.copyfileobj(read, written, 1 << 20)
    shutil.copymode(source, target)


def _restore_modes_and_empty_directories(base: BaseTree, tree: Path) -> None:
    for directory in base.facts.empty:
        on_disk(tree, directory).mkdir(parents=True, exist_ok=True)
    # Innermost first: a directory that nobody may enter is closed after its contents are in place.
    for path, mode in reversed(base.facts.modes):
        on_disk(tree, path).chmod(mode)
