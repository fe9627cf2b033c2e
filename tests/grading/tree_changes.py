"""Changes of trees, made from texts."""

from collections.abc import Mapping

from proctor.core.trees import FILE, FileEntry
from proctor.workspaces import TreeChange


def tree_change(before: Mapping[str, str | bytes], after: Mapping[str, str | bytes]) -> TreeChange:
    """What changed between two sets of files."""
    return TreeChange(before=_entries(before), after=_entries(after))


def _entries(files: Mapping[str, str | bytes]) -> dict[str, FileEntry]:
    return {name: FileEntry(FILE, data.encode() if isinstance(data, str) else data) for name, data in files.items()}
