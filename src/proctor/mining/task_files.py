"""The files of one task, written as an instance of a suite."""

import hashlib
import os
import re
import shutil
from pathlib import Path, PurePosixPath
from typing import Final

from proctor.benchmarks.suites.format import (
    SUITE_SCHEMA,
    InstanceRef,
    OracleRef,
    ProctorSuiteFile,
    Provenance,
    SuiteDefaults,
    TestsEval,
    TestsInstanceFile,
)
from proctor.core.files import write_atomic
from proctor.core.record import Record, to_json
from proctor.core.submission import PatchKind
from proctor.core.trees import file_paths
from proctor.grading.protected_patterns import exact_pattern
from proctor.mining.candidates import Candidate
from proctor.mining.history import RepositoryHistory
from proctor.mining.languages import EnvironmentPlan, Project
from proctor.mining.split import PathRole, role_of

INSTANCES: Final = "instances"
ENVIRONMENTS: Final = "environments"
_MAX_READ: Final = 1_000_000
_NAME: Final = re.compile(rb"[A-Za-z_][A-Za-z0-9_]{3,}")
_LICENCES: Final = {
    "MIT": r"Permission is hereby granted, free of charge, to any person obtaining a copy",
    "Apache-2.0": r"Apache License\s+Version 2\.0",
    "AGPL-3.0": r"GNU AFFERO GENERAL PUBLIC LICENSE",
    "LGPL": r"GNU LESSER GENERAL PUBLIC LICENSE",
    "GPL-3.0": r"GNU GENERAL PUBLIC LICENSE\s+Version 3",
    "GPL-2.0": r"GNU GENERAL PUBLIC LICENSE\s+Version 2",
    "MPL-2.0": r"Mozilla Public License,? (?:Version|v\.?) ?2\.0",
    "BSD-3-Clause": r"Neither the name of|names? of (?:its|the) (?:contributors|copyright)",
    "BSD-2-Clause": r"Redistributions in binary form must reproduce",
    "ISC": r"Permission to use, copy, modify, and(?:/or)? distribute this software for any",
    "Unlicense": r"This is free and unencumbered software released into the public domain",
}


class TaskDraft(Record):
    """One task on disk: a suite of its own with one instance. `after` is the tree with the whole change."""

    folder: Path
    task_id: str
    after: Path

    @property
    def instance(self) -> Path:
        """The instance's folder."""
        return self.folder / INSTANCES / self.task_id

    @property
    def repo(self) -> Path:
        """The tree that the agent starts from."""
        return self.instance / "repo"


def task_id_of(name: str, candidate: Candidate) -> str:
    """A name that holds the day and not the commit: whoever sees it cannot look the change up."""
    digest = hashlib.sha256(candidate.change.commit.encode()).hexdigest()[:8]
    return f"{name}-{candidate.change.day.replace('-', '')}-{digest}"


def lay_out_draft(history: RepositoryHistory, candidate: Candidate, folder: Path) -> TaskDraft:
    """Write the trees and the oracle of a task."""
    change, split = candidate.change, candidate.split
    draft = TaskDraft(folder=folder, task_id=task_id_of(history.name, candidate), after=folder / "after")
    shutil.rmtree(folder, ignore_errors=True)
    draft.instance.mkdir(parents=True)
    history.write_tree(change.parent, draft.repo)
    history.write_tree(change.commit, draft.after)
    hidden = [path.path for path in split.tests if path.status != "D"]
    history.write_tree(change.commit, draft.instance / "hidden", hidden)
    oracle = history.diff(change, [path.path for path in split.oracle])
    (draft.instance / "oracle.diff").write_bytes(oracle)
    return draft


def project_of(draft: TaskDraft, candidate: Candidate, history: RepositoryHistory) -> Project:
    """The project after the change, for its language."""
    change = candidate.change
    return Project(
        tree=draft.after,
        paths=history.paths(change.commit),
        tests=tuple(path.path for path in candidate.split.tests if path.status != "D" and not path.is_link),
        date=change.day,
        version=history.nearest_version(change.commit),
    )


def write_environment(folder: Path, language: str, plan: EnvironmentPlan) -> str:
    """Write an environment into a suite's folder; gives its path there. Equal environments have one path."""
    document = to_json(plan.file)
    digest = hashlib.sha256(document)
    for name, data in sorted(plan.files.items()):
        digest.update(b"%s\0%d\0%s" % (name.encode(), len(data), data))
    path = f"{ENVIRONMENTS}/{language}-{digest.hexdigest()[:12]}"
    for name, data in plan.files.items():
        file = folder / path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data)
    (folder / path).mkdir(parents=True, exist_ok=True)
    write_atomic(folder / path / "environment.json", document)
    return path


def write_instance(
    draft: TaskDraft,
    *,
    language: str,
    tests: TestsEval,
    environment_path: str | None,
    provenance: Provenance,
    instruction: str,
) -> None:
    """Write what is left of a task: its instruction and its `instance.json`, and the suite around it."""
    file = TestsInstanceFile(
        schema_version="proctor.instance@1",
        instance_id=draft.task_id,
        problem_statement_path="issue.md",
        repo_path="repo",
        eval=tests,
        oracle=OracleRef(patch_kind=PatchKind.UNIFIED_DIFF, patch_path="oracle.diff"),
        tags=("mined", *provenance.flags),
        language=language,
        environment_path=environment_path,
        created=provenance.committed_at[:10],
        provenance=provenance,
    )
    (draft.instance / "issue.md").write_text(instruction, encoding="utf-8")
    (draft.instance / "instance.json").write_bytes(to_json(file))
    write_suite(draft.folder, "draft", [draft.task_id], "")


def write_suite(folder: Path, suite_id: str, task_ids: list[str], description: str) -> None:
    """Write `suite.json` over instances that are there."""
    file = ProctorSuiteFile(
        schema_version=SUITE_SCHEMA,
        suite_id=suite_id,
        description=description,
        instances=tuple(InstanceRef(id=task_id, path=f"{INSTANCES}/{task_id}") for task_id in sorted(task_ids)),
        defaults=SuiteDefaults(),
    )
    write_atomic(folder / "suite.json", to_json(file))


def protected_patterns(candidate: Candidate) -> tuple[str, ...]:
    """What a submission cannot change for good: the folders of tests that the change touches, and its test files."""
    patterns: dict[str, None] = {}
    oracle = [path.path for path in candidate.split.oracle]
    for path in candidate.split.tests:
        parts = PurePosixPath(path.path).parts[:-1]
        folder = next(
            (
                "/".join(parts[: depth + 1])
                for depth in range(len(parts))
                if role_of("/".join((*parts[: depth + 1], "x"))) is PathRole.TEST
            ),
            None,
        )
        if folder is None or any(one.startswith(f"{folder}/") for one in oracle):
            patterns[exact_pattern(path.path)] = None
        else:
            patterns[f"{exact_pattern(folder)}/"] = None
    return tuple(patterns)


def tree_names(tree: Path) -> frozenset[str]:
    """Every name in the text files of a tree."""
    found: set[bytes] = set()
    for path in file_paths(tree):
        file = tree / os.fsdecode(path)
        if file.is_symlink() or file.stat().st_size > _MAX_READ:
            continue
        data = file.read_bytes()
        if b"\0" not in data[:8000]:
            found.update(_NAME.findall(data))
    return frozenset(name.decode() for name in found)


def find_licence(tree: Path) -> str | None:
    """The licence of a tree, by the text of its licence file; None when it is not recognised."""
    for file in sorted(tree.iterdir()):
        if re.match(r"(?i)^(?:licen[cs]e|copying|unlicense)", file.name) and file.is_file() and not file.is_symlink():
            # Lines break where they like.
            text = " ".join(file.read_text(encoding="utf-8", errors="replace")[:20_000].split())
            for name, pattern in _LICENCES.items():
                if re.search(pattern, text, re.IGNORECASE):
                    return name
    return None
