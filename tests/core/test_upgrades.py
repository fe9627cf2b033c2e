"""Records of older versions are read as if they were written today."""

import json
from typing import Any, Literal, get_args, get_type_hints

import msgspec
import pytest

from proctor.benchmarks.re_bench.benchmark import ReBenchEvidence
from proctor.core.agent import AgentOutcome
from proctor.core.record import Record, from_json, to_json
from proctor.core.result import AgentMetrics
from proctor.core.run import JournalEntry
from proctor.core.sweep import Sweep
from proctor.core.trajectory import Trajectory
from proctor.core.upgrades import UPGRADES, upgrade
from proctor.grading.state.snapshot import EnvironmentSnapshot
from proctor.report.formats.harbor import HarborJobExtra
from proctor.results.attempt_record import AttemptRecord, GradingRecord
from proctor.schema import RECORDS

ENTRY = {
    "at": "2026-01-01T00:00:00Z",
    "task_id": "a",
    "sample": 3,
    "attempt": 1,
    "stage": "recorded",
    "schema_version": "proctor.journal_entry@1",
}


class _SomeFields(Record):
    task_id: str
    trial: int = 1


def _config() -> dict[str, Any]:
    return {
        **dict.fromkeys(("run_id", "benchmark", "source", "agent", "preset", "data_digest", "created_at"), "x"),
        **dict.fromkeys(("model", "pod_template", "image", "network"), None),
        **dict.fromkeys(("concurrency", "grade_concurrency", "max_turns"), 1),
        **dict.fromkeys(("command", "tasks", "excluded"), ()),
        **{key: {} for key in ("variables", "limits", "budget", "versions")},
        "mode": "baseline",
        "runner": "local",
        "isolation": True,
        "machine": {"platform": "", "python": "", "cpus": 1, "memory_mb": 1},
        "samples": 4,
        "briefing": {"append_system_prompt": "Be brief."},
        "schema_version": "proctor.run_config@1",
    }


def test_renamed_fields_are_found() -> None:
    entry = from_json(json.dumps(ENTRY), JournalEntry)
    assert (entry.trial, entry.schema_version) == (3, "proctor.journal_entry@2")


def test_a_reader_of_some_fields_loses_none_to_a_default() -> None:
    assert from_json(json.dumps(ENTRY), _SomeFields).trial == 3


@pytest.mark.parametrize("outer", [{"schema_version": "proctor.harbor_job@1"}, {}])
def test_records_inside_of_others_are_upgraded(outer: dict[str, str]) -> None:
    job = from_json(json.dumps({"config": _config(), **outer}), HarborJobExtra)
    assert (job.config.trials, job.config.agent_options.append_system_prompt) == (4, "Be brief.")


def test_records_inside_of_older_ones_are_upgraded_too() -> None:
    document = {
        "sweep_id": "sweep-001",
        "name": "n",
        "benchmark": "b",
        "file": "",
        "runs": [{"label": "first", "config": _config()}, {"label": "second", "config": _config()}],
        "baseline": "first",
        "rule": None,
        "created_at": "",
        "schema_version": "proctor.sweep@1",
    }
    sweep = from_json(json.dumps(document), Sweep)
    assert sweep.reference == "first"
    assert [run.config.trials for run in sweep.runs] == [4, 4]


def test_paths_go_through_lists_and_values_change() -> None:
    document = {
        "task_id": "a",
        "agent": "b",
        "steps": [
            {"source": "system", "kind": "trouble", "observed": "one"},
            {"source": "user", "kind": "message", "text": "trouble"},
        ],
        "schema_version": "proctor.trajectory@1",
    }
    steps = from_json(json.dumps(document), Trajectory).steps
    assert [(step.kind, step.observation, step.text) for step in steps] == [
        ("error", "one", ""),
        ("message", "", "trouble"),
    ]


def test_versions_follow_one_another(monkeypatch: pytest.MonkeyPatch) -> None:
    first = UPGRADES["proctor.journal_entry@1"]
    later = first._replace(to="proctor.journal_entry@3", renames={"trial": "number"})
    monkeypatch.setattr("proctor.core.upgrades.UPGRADES", {**UPGRADES, first.to: later})
    document = dict(ENTRY)
    upgrade(document)
    assert (document["number"], document["schema_version"]) == (3, "proctor.journal_entry@3")


def _current(version: str) -> str:
    while version in UPGRADES:
        version = UPGRADES[version].to
    return version


def test_a_run_without_controls_says_so() -> None:
    assert from_json(json.dumps({"config": _config()}), HarborJobExtra).config.controls == 0


def _fields(kind: Any, path: list[str]) -> set[str]:
    """The fields of the record at a path; lists and alternatives are passed through."""
    found = {kind}
    for name in [*path, None]:
        inner: set[Any] = set()
        while found:
            one = found.pop()
            if isinstance(one, type) and issubclass(one, msgspec.Struct):
                inner.add(one)
            else:
                found.update(get_args(one))
        if name is None:
            return {field for one in inner for field in one.__struct_fields__}
        found = {get_type_hints(one)[name] for one in inner if name in one.__struct_fields__}
    return set()


@pytest.mark.parametrize("version", UPGRADES)
def test_every_new_name_is_a_field_of_the_current_record(version: str) -> None:
    step = UPGRADES[version]
    unlisted = (AgentOutcome, AttemptRecord, EnvironmentSnapshot, GradingRecord, ReBenchEvidence)
    kinds = [kind for kind in (*RECORDS.values(), *unlisted) if _is(kind, _current(version))]
    assert len(kinds) == 1
    names = dict(step.renames)
    for path, new in step.renames.items():
        parents = path.split(".")[:-1]
        renamed = [names.get(".".join(parents[: end + 1]), parent) for end, parent in enumerate(parents)]
        assert new in _fields(kinds[0], renamed), path
        assert path.split(".")[-1] not in _fields(kinds[0], renamed), path


def _is(kind: Any, version: str) -> bool:
    return "schema_version" in getattr(kind, "__struct_fields__", ()) and get_args(
        get_type_hints(kind)["schema_version"]
    ) == (version,)


def test_a_document_without_a_version_is_of_version_0() -> None:
    old = {"detail": 'it wrote "schema_version"', "metrics": {"utilisation": 0.5}}
    assert from_json(json.dumps(old), AgentOutcome).metrics.active_share == 0.5
    new = AgentOutcome(metrics=AgentMetrics(active_share=0.25))
    assert from_json(to_json(new), AgentOutcome) == new


def test_text_that_looks_like_an_old_record_stays_as_it_is() -> None:
    class Note(Record):
        text: str
        schema_version: Literal["test.note@1"] = "test.note@1"

    text = json.dumps(ENTRY)
    assert from_json(json.dumps({"text": text}), Note).text == text
