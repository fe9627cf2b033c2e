"""A base: our own copy of a starting tree, with the base commit's past and nothing later.

Bases are kept in the cache and never changed. Agents get copies of them, submissions are compared with them, and
a three-way merge finds its common ancestor in them.
"""

from pathlib import Path

from proctor.core.record import Record


class BaseTreeInfo(Record):
    """What is known of a base beside its git objects. Paths are bytes, since names need not be text.

    Attributes:
        commit: the commit whose files are the tree.
        history: the packs that hold the commit and its past.
        modes: permissions of a plain directory's files and directories that git does not keep.
        empty: directories of it without files, which git does not keep either.
        outward_links: symlinks of the tree that may lead out of it. They are kept as they are.
    """

    commit: str
    history: tuple[str, ...] = ()
    modes: tuple[tuple[bytes, int], ...] = ()
    empty: tuple[bytes, ...] = ()
    outward_links: tuple[bytes, ...] = ()


class BaseTree(Record):
    """A starting tree in the cache: a bare repository whose refs are `main` and the tags of that time."""

    git_dir: Path
    facts: BaseTreeInfo

    @property
    def commit(self) -> str:
        """The commit whose files are the tree; of a plain directory, the only one."""
        return self.facts.commit
