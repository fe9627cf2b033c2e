"""Whether the solution of a task lies in the repository itself: in its changelog, its docs, or a vendored copy."""

import os
import shutil
import tempfile
from pathlib import Path, PurePosixPath

from proctor.core.task import DirectorySource
from proctor.core.trees import file_paths
from proctor.mining.split import PathRole, role_of
from proctor.workspaces import base_of, check_out, prove_no_leak

_SEARCHED = frozenset({PathRole.DOCUMENT, PathRole.GENERATED, PathRole.LOCK, PathRole.OTHER})


def find_copies(repo: Path, oracle: bytes, changed: frozenset[str]) -> tuple[str, ...]:
    """Files of a tree that hold enough of the oracle: documents, generated and vendored files.

    Source that resembles the oracle is what any programmer of the repository reads, and is no leak.
    """
    with tempfile.TemporaryDirectory(prefix="proctor-copies-") as scratch:
        base = base_of(DirectorySource(path=str(repo)))
        workspace, copies = Path(scratch) / "workspace", Path(scratch) / "copies"
        check_out(base, workspace)
        copies.mkdir()
        for path in file_paths(repo):
            name = os.fsdecode(path)
            if name not in changed and role_of(name) in _SEARCHED and not (repo / name).is_symlink():
                target = copies / name
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(repo / name, target)
        proof = prove_no_leak(oracle, workspace, commit=base.commit, extra=[copies])
    return tuple(
        sorted(
            {
                PurePosixPath(leak.location).name
                if "/copies/" not in leak.location
                else leak.location.partition("/copies/")[2]
                for leak in proof.leaks
            }
        )
    )
