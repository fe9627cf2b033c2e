"""Putting a sandbox in its place, replacing it, and taking it away, so that a kill at any moment does no harm.

Beside the sandboxes, ``<root>/.proctor`` has one place per name for each step of the work:

    building/<name>   a tree that is being made; worth nothing until it is whole
    ready/<name>      a whole tree on its way to replace the sandbox
    trash/<name>      a tree that is no sandbox any more and only waits to be removed
    locks/<name>      held by the one command that works on this name

Trees move between places by `rename`, which is atomic. A replacement is

    build, with the credentials linked in ─▶ ready ─▶ old tree to trash ─▶ ready tree to its place ─▶ empty the trash

so at every moment a whole set of credentials is in the sandbox's place or in `ready`, and what is there tells `repair`
how far the work had come: as long as the old tree is in place the replacement has not happened, after that it has.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from proctor.core.errors import InfrastructureError, UsageError
from proctor.core.files import file_lock
from proctor.core.trees import is_directory
from proctor.sandboxes.layout import is_name, socket_link, temporary_directory
from proctor.sandboxes.trees import remove_unmounted_tree

_STEPS: Final = ("building", "ready", "trash")
_SHARED_TEMPORARIES: Final = ("/tmp", "/var/tmp")  # noqa: S108 - where links may have been left, not where we write


class StagingArea:
    """The places under one root."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._state_dir = root / ".proctor"

    def home(self, name: str) -> Path:
        """Where the sandbox is."""
        return self.root / name

    def building(self, name: str) -> Path:
        """Where its next tree is made."""
        return self._state_dir / "building" / name

    def ready(self, name: str) -> Path:
        """Where its next tree waits for the old one to go."""
        return self._state_dir / "ready" / name

    def unfinished(self) -> set[str]:
        """The names on which a command is working, or was killed while it did."""
        names: set[str] = set()
        for step in _STEPS:
            with suppress(OSError):
                names.update(path.name for path in (self._state_dir / step).iterdir() if is_name(path.name))
        return names

    @contextmanager
    def lock(self, name: str, *, wait_seconds: float, on_wait: Callable[[], None] | None = None) -> Iterator[None]:
        """Be the only command that works on this name, after finishing what a killed one may have left.

        Raises:
            RetryableError: another command is at it, and was for all of `wait_seconds`.
        """
        for directory in (self.root, self._state_dir, *(self._state_dir / step for step in (*_STEPS, "locks"))):
            try:
                directory.mkdir(mode=0o700, parents=directory == self.root, exist_ok=True)
            except OSError as error:
                raise UsageError(f"cannot be made: {error.strerror}", where=directory) from error
            if not is_directory(directory):
                raise UsageError("is in the way: Proctor needs a directory of its own there", where=directory)
        lock = self._state_dir / "locks" / name
        with file_lock(lock, what=f"sandbox {name}", wait_seconds=wait_seconds, on_wait=on_wait):
            self._repair(name)
            yield

    def install(self, name: str) -> None:
        """Make the tree that was built the sandbox."""
        self.building(name).rename(self.home(name))

    def replace(self, name: str) -> None:
        """Make the tree that was built the sandbox, and remove the old one."""
        self.building(name).rename(self.ready(name))
        self.home(name).rename(self._trash(name))
        self.ready(name).rename(self.home(name))
        self._empty_trash(name)

    def remove(self, name: str) -> None:
        """Remove the sandbox."""
        self.home(name).rename(self._trash(name))
        self._empty_trash(name)

    def _trash(self, name: str) -> Path:
        return self._state_dir / "trash" / name

    def _repair(self, name: str) -> None:
        remove_unmounted_tree(self.building(name))
        if is_directory(self.ready(name)):
            if is_directory(self.home(name)):
                self._empty_trash(name)
                self.ready(name).rename(self._trash(name))
            else:
                self._restore(name)
        self._empty_trash(name)

    def _restore(self, name: str) -> None:
        try:
            self.ready(name).rename(self.home(name))
        except OSError as error:
            raise InfrastructureError(
                f"the sandbox cannot be put back in its place: {error.strerror}",
                where=self.home(name),
                fix="remove what is there",
            ) from error

    def _empty_trash(self, name: str) -> None:
        if os.path.lexists(self._trash(name)):
            remove_socket_links(self.home(name))
            remove_unmounted_tree(self._trash(name))


def remove_socket_links(home: Path, temporaries: frozenset[str] = frozenset()) -> None:
    """Remove the symlink that h2 leaves in the temporary directory for a sandbox with a long path.

    Args:
        home: the sandbox, which may be gone already.
        temporaries: further directories in which the link may be.
    """
    for temporary in {str(temporary_directory()), *_SHARED_TEMPORARIES, *temporaries}:
        link = socket_link(home, Path(temporary))
        if link is None:
            return
        with suppress(OSError):
            if link.readlink() == home / "sockets":
                link.unlink()
