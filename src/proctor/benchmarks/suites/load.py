"""A suite from its folder: every file read and checked, every problem kept with its place."""

import functools
import hashlib
import importlib.resources
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import msgspec

from proctor.benchmarks.suites.boundaries import require_inside, require_plain_tree
from proctor.benchmarks.suites.documents import DocumentProblem, InvalidDocument, decode_document, read_bytes
from proctor.benchmarks.suites.format import InstanceRef, SuiteFile
from proctor.benchmarks.suites.instance import Instance
from proctor.benchmarks.suites.kinds import OWN_KIND, instance_kind, registered_kinds, suite_type
from proctor.core.errors import InvalidData
from proctor.core.record import Record

SUITE_FILE: Final = "suite.json"
INSTANCE_FILE: Final = "instance.json"


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
    """Read a suite by path, or by the name of a shipped one. Unusable instances are in `Suite.invalid`.

    Raises:
        InvalidData: there is no such suite, or its file is bad.
    """
    path = find_suite(where)
    if path.name != Path(where).name:  # a file that is named itself may be a link
        require_inside(path.parent, path)
    data = read_bytes(path)
    file = decode_document(data, suite_type(_header(data).schema_version), file=str(path))
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


@functools.cache
def shipped_root() -> Path:
    """Where the shipped suites are."""
    return Path(str(importlib.resources.files("proctor"))) / "suites"


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


class _EvalHeader(msgspec.Struct):
    kind: str = OWN_KIND


class _FileHeader(msgspec.Struct):
    """What says which type a file has; whatever else is wrong with it is found when it is read as that type."""

    schema_version: str = ""
    eval: _EvalHeader = msgspec.field(default_factory=_EvalHeader)


def _header(data: bytes) -> _FileHeader:
    try:
        return msgspec.json.decode(data, type=_FileHeader)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return _FileHeader()


def _load_instance(suite: Path, ref: InstanceRef) -> Instance | InvalidInstance:
    place = suite.parent / ref.path
    path = place if ref.path.endswith(".json") else place / INSTANCE_FILE
    require_inside(suite.parent, path)
    try:
        data = read_bytes(path)
        kind = _kind(path, _header(data).eval.kind)
        file = decode_document(data, kind.file_type, file=str(path))
    except InvalidDocument as error:
        return InvalidInstance(id=ref.id, problems=error.problems)
    instance = kind(id=ref.id, file=file, path=path, notes=())
    _require_inside(suite, instance)
    notes, problems = [ref.note] if ref.note else [], []
    for place_in_file, message in _instance_problems(instance):
        if place_in_file in instance.tolerated_problems:
            notes.append(message)
        else:
            problems.append(DocumentProblem(file=str(path), path=place_in_file, message=message))
    if problems:
        return InvalidInstance(id=ref.id, problems=tuple(problems))
    if file.tags:
        notes.append("tags=" + ",".join(file.tags))
    return msgspec.structs.replace(instance, notes=(*notes, *file.notes))


def _require_inside(suite: Path, instance: Instance) -> None:
    """See that all that an instance names is in its suite's folder, and that its trees are plain.

    Raises:
        UntrustedSuite: it is not so.
    """
    statement = instance.path.parent / instance.file.problem_statement_path
    trees = [tree for tree in (instance.repo, instance.hidden) if tree is not None]
    for path in (statement, *trees, *filter(None, [instance.oracle, instance.environment])):
        require_inside(suite.parent, path)
    for tree in trees:
        if tree.is_dir():
            require_plain_tree(tree)


def _kind(path: Path, name: str) -> type[Instance]:
    kind = instance_kind(name)
    if kind is None:
        message = f"the kind {name!r} is not one of {', '.join(registered_kinds())}"
        raise InvalidDocument([DocumentProblem(file=str(path), path="$.eval", message=message)])
    return kind


def _instance_problems(instance: Instance) -> Iterator[tuple[str, str]]:
    """What a schema cannot say: files that must be there, fields that depend on each other."""
    file, folder = instance.file, instance.path.parent
    if file.instance_id != instance.id:
        yield "$.instance_id", f"instance.json says {file.instance_id!r}, the suite says {instance.id!r}"
    if not (folder / file.problem_statement_path).is_file():
        yield "$.problem_statement_path", f"there is no file {file.problem_statement_path}"
    if not instance.repo.is_dir():
        yield "$.repo_path", f"there is no folder {file.repo_path}"
    if file.oracle and not (folder / file.oracle.patch_path).is_file():
        yield "$.oracle.patch_path", f"there is no file {file.oracle.patch_path}"
    both = sorted(set(file.eval.fail_to_pass) & set(file.eval.pass_to_pass))
    if both:
        yield "$.eval", f"labelled both fail_to_pass and pass_to_pass: {', '.join(both)}"
    yield from instance.problems()
