"""The kinds of instances that suites may hold: ours, and those that packages register."""

from typing import Final

from proctor.benchmarks.suites.format import SUITE_SCHEMA, ProctorSuiteFile, SuiteFile
from proctor.benchmarks.suites.instance import Instance
from proctor.benchmarks.suites.tests_instance import TestsInstance
from proctor.core.plugins import entry_points

GROUP: Final = "proctor.suite_kinds"
OWN_KIND: Final = "tests"


def instance_kind(name: str) -> type[Instance] | None:
    """The kind of instances whose files say ``"kind": name`` in `eval`."""
    if name == OWN_KIND:
        return TestsInstance  # asking what is installed takes longer than reading a suite
    for entry in entry_points(GROUP, name=name):
        kind: type[Instance] = entry.load()
        return kind
    return None


def registered_kinds() -> dict[str, type[Instance]]:
    """Every kind by its name, ours first."""
    return {OWN_KIND: TestsInstance, **{entry.name: entry.load() for entry in entry_points(GROUP)}}


def suite_type(schema_version: str) -> type[SuiteFile]:
    """The type of suite files of this version; ours where no kind has it, so that reading the file reports that."""
    if schema_version == SUITE_SCHEMA:
        return ProctorSuiteFile
    kinds = registered_kinds().values()
    return next((kind.suite_type for kind in kinds if kind.suite_schema == schema_version), ProctorSuiteFile)
