"""The driver's copy of the recording of an attempt that a node makes: synced before it is acknowledged."""

import os
from pathlib import Path

from proctor.core.files import append_whole, sync_data, sync_directory, truncate_torn_line


class RecordingCopy:
    """Appends to the recording in the run folder what the node sends of it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        self._new = True

    @property
    def size(self) -> int:
        """How many bytes the copy has."""
        return os.fstat(self._descriptor).st_size

    def append(self, offset: int, data: bytes) -> None:
        """Add a part; what the copy has already is left as it is.

        Raises:
            OSError: it cannot be written.
            ValueError: something before it is missing.
        """
        size = self.size
        if offset > size:
            raise ValueError(f"bytes {size} to {offset} of the recording were not sent")
        append_whole(self._descriptor, [data[size - offset :]])

    def end_line(self) -> None:
        """Remove an unfinished last line."""
        truncate_torn_line(self._descriptor)

    def sync(self) -> None:
        """Sync what was written. May be called in another thread."""
        if self._descriptor >= 0:
            sync_data(self._descriptor)
            if self._new:
                sync_directory(self._path.parent)
                self._new = False

    def close(self) -> None:
        """Close the file."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
