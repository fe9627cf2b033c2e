"""A suite from its folder: every file read and checked, every problem kept with its place."""

import hashlib
import importlib.resources
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from proctor.benchmarks.suites.documents import DocumentProblem, InvalidDocument, read_document
from proctor.benchmarks.suites.format import InstanceFile, InstanceRef, SuiteFile, TestsEval
from proctor.core.errors import InvalidData
from proctor.core.record import Record

SUITE_FILE: Final = "suite.json"
INSTANCE_FILE: Final = "instance.json"
REPORTER_FORMATS: Final = frozenset({"pytest", "unittest"})


class Instance(Record):
    """One instance that can be used."""

    id: str
    file: InstanceFile
    path: Path
    notes: tuple[str, ...]

    @property
    def repo(self) -> Path:
        """The tree that the agent starts from."""
        return self.path.parent / self.file.repo_path

    @property
    def hidden(self) -> Path | None:
        """The files that are laid over the workspace before the tests run."""
        hidden = self.file.eval.hidden_path if isinstance(self.file.eval, TestsEval) else None
        return self.path.parent / hidden if hidden else None

    @property
    def oracle(self) -> Path | None:
        """The reference answer."""
        return self.path.parent / self.file.oracle.patch_path if self.file.oracle else None

    def statement(self) -> str:
        """What the agent is asked to do."""
        file = self.path.parent / self.file.problem_statement_path
        return file.read_text(encoding="utf-8", errors="replace") if file.is_file() else ""

    def digest(self) -> str:
        """Identifies all that a verdict on this instance depends on; the wording and the oracle are not part of it."""
        digest = hashlib.sha256(self.path.read_bytes())
        for tree in filter(None, (self.repo, self.hidden)):
            for line in _tree_lines(tree):
                digest.update(line)
        return digest.hexdigest()


class InvalidInstance(Record):
    """One instance that cannot be used, and why."""

    id: str
    problems: tuple[DocumentProblem, ...]


class Suite(Record):
    """A suite as it lies on disk; instances in the order of their ids, disabled ones left out."""

    path: Path
    file: SuiteFile
    instances: tuple[Instance, ...]
    invalid: tuple[InvalidInstance, ...]

    @property
    def id(self) -> str:
        """The name that results are stored under."""
        return self.file.suite_id

    def digest(self, known: Mapping[str, str] | None = None) -> str:
        """Identifies the data: the suite file and all that verdicts depend on. `known` are digests of instances."""
        known = known or {}
        digests = (known.get(instance.id) or instance.digest() for instance in self.instances)
        parts = [self.path.read_bytes().hex(), *digests]
        return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def load_suite(where: str | Path) -> Suite:
    """Read a suite by path, or by the name of a shipped one. Bad instances are kept apart in `Suite.bad`.

    Raises:
        InvalidData: there is no such suite, or its file is bad.
    """
    path = find_suite(where)
    file = read_document(path, SuiteFile)
    _refuse_duplicates(path, file)
    refs = sorted((ref for ref in file.instances if ref.enabled), key=lambda ref: ref.id)
    loaded = [_load_instance(path, ref) for ref in refs]
    return Suite(
        path=path,
        file=file,
        instances=tuple(item for item in loaded if isinstance(item, Instance)),
        invalid=tuple(item for item in loaded if isinstance(item, InvalidInstance)),
    )


def find_suite(where: str | Path) -> Path:
    """The suite file that is meant: a file, a folder with one, a shipped suite's name, or a file further up."""
    shipped = shipped_suites()
    for folder in [Path.cwd(), *Path.cwd().parents]:
        candidate = folder / where
        if (candidate / SUITE_FILE).is_file():
            return candidate / SUITE_FILE
        if candidate.is_file():
            return candidate
        if str(where) in shipped:
            return shipped[str(where)]
    raise InvalidData(
        "there is no such suite",
        where=where,
        fix=f"give the path of a suite.json or its folder, or a shipped suite's name ({', '.join(sorted(shipped))})",
    )


def shipped_suites() -> Mapping[str, Path]:
    """The suites that come with Proctor, by id."""
    root = shipped_root()
    return {json.loads(file.read_bytes())["suite_id"]: file for file in sorted(root.glob("*/*.json"))}


def shipped_root() -> Path:
    """Where the shipped suites are."""
    return Path(str(importlib.resources.files("proctor"))) / "suites"


def suite_jcs_sha256(file: SuiteFile) -> str:
    """The digest that x07's reports give for a suite: of the decoded file, with defaults filled in, keys sorted."""
    defaults = file.defaults
    document = {
        "schema_version": file.schema_version,
        "suite_id": file.suite_id,
        "description": file.description,
        "instances": [
            {"id": ref.id, "path": ref.path, "enabled": ref.enabled, "note": ref.note or None} for ref in file.instances
        ],
        "defaults": {
            "world": defaults.world,
            "repair_mode": defaults.repair_mode,
            "jobs": defaults.jobs,
            "keep_artifacts": defaults.keep_artifacts,
            "artifact_dir": defaults.artifact_dir,
            "determinism_runs": defaults.determinism_runs,
        },
    }
    return hashlib.sha256(canonical_json(document)).hexdigest()


def canonical_json(document: Any) -> bytes:
    """Compact JSON with keys sorted by their bytes, as x07 hashes it."""
    return json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def _refuse_duplicates(path: Path, file: SuiteFile) -> None:
    first: dict[str, int] = {}
    problems = []
    for index, ref in enumerate(file.instances):
        if ref.id in first:
            message = f"the id {ref.id!r} is taken by instances[{first[ref.id]}]"
            problems.append(DocumentProblem(file=str(path), path=f"$.instances[{index}].id", message=message))
        first.setdefault(ref.id, index)
    if problems:
        raise InvalidDocument(problems)


def _load_instance(suite: Path, ref: InstanceRef) -> Instance | InvalidInstance:
    place = suite.parent / ref.path
    path = place if ref.path.endswith(".json") else place / INSTANCE_FILE
    try:
        file = read_document(path, InstanceFile)
    except InvalidDocument as error:
        return InvalidInstance(id=ref.id, problems=error.problems)
    problems = tuple(_instance_problems(path, file, ref))
    notes = [ref.note] if ref.note else []
    if file.schema_version.startswith("x07."):
        # x07 shrugs at these two, so its suites may hold them.
        notes += [problem.message for problem in problems if problem.path in _TOLERATED_BY_X07]
        problems = tuple(problem for problem in problems if problem.path not in _TOLERATED_BY_X07)
    if problems:
        return InvalidInstance(id=ref.id, problems=problems)
    if file.tags:
        notes.append("tags=" + ",".join(file.tags))
    return Instance(id=ref.id, file=file, path=path, notes=(*notes, *file.notes))


_TOLERATED_BY_X07: Final = frozenset({"$.instance_id", "$.problem_statement_path"})


def _instance_problems(path: Path, file: InstanceFile, ref: InstanceRef) -> Iterator[DocumentProblem]:
    """What a schema cannot say: files that must be there, fields that depend on each other."""

    def problem(place: str, message: str) -> DocumentProblem:
        return DocumentProblem(file=str(path), path=place, message=message)

    folder, tests = path.parent, file.eval
    if file.instance_id != ref.id:
        yield problem("$.instance_id", f"instance.json says {file.instance_id!r}, the suite says {ref.id!r}")
    if not (folder / file.problem_statement_path).is_file():
        yield problem("$.problem_statement_path", f"there is no file {file.problem_statement_path}")
    if not (folder / file.repo_path).is_dir():
        yield problem("$.repo_path", f"there is no folder {file.repo_path}")
    if file.oracle and not (folder / file.oracle.patch_path).is_file():
        yield problem("$.oracle.patch_path", f"there is no file {file.oracle.patch_path}")
    both = sorted(set(tests.fail_to_pass) & set(tests.pass_to_pass))
    if both:
        yield problem("$.eval", f"labelled both fail_to_pass and pass_to_pass: {', '.join(both)}")
    if isinstance(tests, TestsEval):
        for place, message in _tests_eval_problems(tests, folder):
            yield problem(place, message)


def _tests_eval_problems(tests: TestsEval, folder: Path) -> Iterator[tuple[str, str]]:
    if tests.hidden_path and not (folder / tests.hidden_path).is_dir():
        yield ("$.eval.hidden_path", f"there is no folder {tests.hidden_path}")
    if tests.format in REPORTER_FORMATS:
        if tests.command:
            yield ("$.eval.command", f"our reporter runs {tests.format}; `arguments` says what")
    elif not tests.command:
        yield ("$.eval.command", f"the format {tests.format} needs a command")
    elif tests.arguments:
        yield ("$.eval.arguments", "only pytest and unittest take arguments")
    elif tests.format == "junit" and not any("{report}" in word for word in tests.command):
        yield ("$.eval.command", "junit needs `{report}` where the report is to be written")


def _tree_lines(tree: Path) -> Iterator[bytes]:
    for path in sorted(tree.rglob("*")):
        name = path.relative_to(tree).as_posix().encode(errors="surrogateescape")
        if path.is_symlink():
            yield b"l %s\0%s\0" % (name, str(path.readlink()).encode(errors="surrogateescape"))
        elif path.is_file():
            kind = b"x" if path.stat().st_mode & 0o111 else b"f"
            yield b"%s %s\0%s\0" % (kind, name, hashlib.sha256(path.read_bytes()).digest())
