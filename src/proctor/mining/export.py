"""A suite in the row format of SWE-bench, so that other harnesses can use it."""

import json
import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

from proctor.benchmarks.suites.load import Suite, load_suite
from proctor.benchmarks.suites.tests_instance import TestsInstance
from proctor.core.errors import UsageError
from proctor.core.trees import file_paths
from proctor.workspaces.git import make_repository, run_git


def swe_bench_rows(where: str | Path) -> list[dict[str, Any]]:
    """One row a task, with the columns of SWE-bench and lists as JSON texts, as its data sets have them.

    Raises:
        UsageError: a task has no provenance, so that its repository and commit are not known.
    """
    suite = load_suite(where)
    return [_row(suite, instance) for instance in suite.instances]


def _row(suite: Suite, instance: Any) -> dict[str, Any]:
    provenance = instance.file.provenance if isinstance(instance, TestsInstance) else None
    if provenance is None or instance.oracle is None:
        raise UsageError(
            f"the task {instance.id} was not mined: its repository and commit are not known",
            where=suite.path,
            fix="export a suite made by `proctor suite mine`",
        )
    tests = instance.file.eval
    return {
        "repo": _repository(provenance.repository),
        "instance_id": instance.id,
        "base_commit": provenance.parent,
        "patch": instance.oracle.read_bytes().decode("utf-8", "replace"),
        "test_patch": tests_diff(instance.repo, instance.hidden).decode("utf-8", "replace"),
        "problem_statement": instance.statement(),
        "hints_text": "",
        "created_at": provenance.committed_at,
        "version": (instance.created or "")[:7],
        "FAIL_TO_PASS": json.dumps(list(tests.fail_to_pass)),
        "PASS_TO_PASS": json.dumps(list(tests.pass_to_pass)),
        "environment_setup_commit": provenance.parent,
        "language": instance.file.language or "",
        "license": provenance.licence or "",
        "flags": list(provenance.flags),
    }


def _repository(address: str) -> str:
    """OWNER/NAME, as the rows have it, of an address; else what is known."""
    parts = [part for part in address.removesuffix(".git").replace(":", "/").split("/") if part]
    return "/".join(parts[-2:])


def tests_diff(repo: Path, hidden: Path | None) -> bytes:
    """What the hidden files change in a tree, as a unified diff."""
    if hidden is None:
        return b""
    with tempfile.TemporaryDirectory(prefix="proctor-export-") as scratch:
        git_dir, tree = Path(scratch) / "git", Path(scratch) / "tree"
        make_repository(git_dir, bare=False)
        tree.mkdir()
        names = [os.fsdecode(path) for path in file_paths(hidden)]

        def write(root: Path) -> str:
            for name in names:
                (tree / name).unlink(missing_ok=True)
                if os.path.lexists(root / name):
                    (tree / name).parent.mkdir(parents=True, exist_ok=True)
                    shutil.copy2(root / name, tree / name, follow_symlinks=False)
            run_git(["add", "--all", "--force", "."], git_dir=git_dir, work_tree=tree)
            return run_git(["write-tree"], git_dir=git_dir, work_tree=tree).output.decode().strip()

        before, after = write(repo), write(hidden)
        options = ["--no-renames", "--binary", "--full-index", "--no-ext-diff", "--no-textconv"]
        return run_git(["diff-tree", "-r", "-p", *options, before, after], git_dir=git_dir).output
