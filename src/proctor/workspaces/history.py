"""The past of a commit and nothing else, packed out of a mirror that knows the future."""

import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from proctor.core.trees import LINK
from proctor.workspaces.base import BaseTree, BaseTreeInfo
from proctor.workspaces.git import run_git, stream_git
from proctor.workspaces.objects import list_files, read_objects
from proctor.workspaces.paths import link_escapes

# More packs cost every git command in the workspace a little; fewer cost disk.
LONGEST_CHAIN: Final = 10


def pack_history(mirror: Path, commit: str, git_dir: Path, *, existing: Sequence[BaseTree]) -> BaseTreeInfo:
    """Fill the empty repository `git_dir` with what `commit` reaches.

    What an earlier base in `others` has packed already is shared with it by hard links: every task
    of a repository costs only the history since the one before.
    """
    (git_dir / "objects" / "pack").mkdir()
    committed_at = int(run_git(["log", "-1", "--format=%ct", commit], git_dir=mirror).output)
    earlier = _nearest(mirror, commit, existing)
    history: list[str] = []
    wanted = f"{commit}\n"
    if earlier is not None:
        _share(earlier, git_dir)
        history += earlier.facts.history
        wanted += f"^{earlier.commit}\n"
    history += _pack(mirror, git_dir, wanted, "--revs")
    tags = _tags(mirror, commit, committed_at)
    # In a pack of their own: a tag that this base may have need not be one that a later base has.
    if tags:
        _pack(mirror, git_dir, "".join(f"{tag}\n" for tag in tags.values()))
    _copy_shallow(mirror, commit, git_dir)
    refs = {"refs/heads/main": commit, **tags}
    run_git(
        ["update-ref", "--stdin"],
        git_dir=git_dir,
        stdin="".join(f"create {ref} {target}\n" for ref, target in refs.items()).encode(),
    )
    run_git(["pack-refs", "--all"], git_dir=git_dir)
    return BaseTreeInfo(
        commit=commit,
        history=tuple(history),
        outward_links=_outward_links(git_dir, commit),
    )


def _nearest(mirror: Path, commit: str, existing: Sequence[BaseTree]) -> BaseTree | None:
    shareable = {other.commit: other for other in existing if len(other.facts.history) < LONGEST_CHAIN}
    if not shareable:
        return None
    with stream_git(["rev-list", commit], git_dir=mirror) as ancestors:
        for line in ancestors:
            if (found := shareable.get(line.decode().strip())) is not None:
                return found
    return None


def _share(earlier: BaseTree, git_dir: Path) -> None:
    for pack in earlier.facts.history:
        for file in (earlier.git_dir / "objects" / "pack").glob(f"{pack}.*"):
            target = git_dir / "objects" / "pack" / file.name
            try:
                os.link(file, target)
            except OSError:  # a file system without hard links
                shutil.copyfile(file, target)


def _pack(mirror: Path, git_dir: Path, wanted: str, *options: str) -> list[str]:
    prefix = git_dir / "objects" / "pack" / "pack"
    made = run_git(
        # The mirror's deltas are taken over. To look for others, where their bases belong to the future, takes two to
        # six times as long as all the rest, and saves a tenth of the pack.
        ["pack-objects", *options, "--quiet", "--non-empty", "--delta-base-offset", "--window=0", str(prefix)],
        git_dir=mirror,
        stdin=wanted.encode(),
        timeout=3600.0,
    )
    return [f"pack-{name}" for name in made.output.decode().split()]


def _tags(mirror: Path, commit: str, committed_at: int) -> dict[str, str]:
    """The tags on the commit's past, by ref.

    A tag with a date is dropped when it was made after the commit, even if it marks something older: nobody who
    worked on the commit then could have seen it. So is a tag of a tag.
    """
    form = "%(refname) %(objectname) %(objecttype) %(type) %(taggerdate:unix)"
    listed = run_git(["for-each-ref", f"--merged={commit}", f"--format={form}", "refs/tags"], git_dir=mirror)
    tags = {}
    for line in listed.output.decode("utf-8", "surrogateescape").splitlines():
        ref, target, kind, tagged, made_at = line.split(" ", 4)
        if kind == "commit" or (tagged == "commit" and int(made_at or 0) <= committed_at):
            tags[ref] = target
    return tags


def _copy_shallow(mirror: Path, commit: str, git_dir: Path) -> None:
    """Where the mirror's source was cut off, this history ends too."""
    if not (mirror / "shallow").exists():
        return
    ends = set((mirror / "shallow").read_text().split())
    with stream_git(["rev-list", commit], git_dir=mirror) as ancestors:
        reached = ends.intersection(line.decode().strip() for line in ancestors)
    if reached:
        (git_dir / "shallow").write_text("".join(f"{end}\n" for end in sorted(reached)))


def _outward_links(git_dir: Path, commit: str) -> tuple[bytes, ...]:
    links = {path: listed.id for path, listed in list_files(git_dir, commit).items() if listed.mode == LINK}
    targets = {found.id: found.data for found in read_objects(git_dir, sorted(set(links.values())))}
    return tuple(sorted(path for path, identity in links.items() if link_escapes(path, targets[identity])))
