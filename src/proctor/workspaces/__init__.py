"""Workspaces: where a task's code comes from, what the agent gets of it, its submission, and how that is applied.

A task's source becomes a `BaseTree` in the cache, which holds the past of the base commit and nothing later. An agent
gets a copy of it, and what it changed becomes a submission. A submission is checked and applied to a fresh copy.
Everything here but `collect_patch` blocks; call it from a thread (`asyncio.to_thread`).
"""

from proctor.core.trees import TreeChange, read_change
from proctor.workspaces.applying import ApplyResult
from proctor.workspaces.base import BaseTree
from proctor.workspaces.checkout import check_out
from proctor.workspaces.invalid_submission import InvalidSubmission
from proctor.workspaces.leaks import Leak, LeakProof, prove_no_leak
from proctor.workspaces.patch_kinds import apply_patch, patch_paths, patch_sha256
from proctor.workspaces.sources import base_of
from proctor.workspaces.submissions import ExcludedFile, WorkspacePatch, collect_patch, make_submission

__all__ = [
    "ApplyResult",
    "BaseTree",
    "ExcludedFile",
    "InvalidSubmission",
    "Leak",
    "LeakProof",
    "TreeChange",
    "WorkspacePatch",
    "apply_patch",
    "base_of",
    "check_out",
    "collect_patch",
    "make_submission",
    "patch_paths",
    "patch_sha256",
    "prove_no_leak",
    "read_change",
]
