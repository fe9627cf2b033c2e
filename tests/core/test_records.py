import json
from pathlib import Path
from typing import Any

import jsonschema
import msgspec
import pytest

import proctor
from proctor.core.causes import CONSEQUENCES, Cause, Status
from proctor.core.errors import InvalidData
from proctor.core.option_types import render
from proctor.core.record import Record, from_json, read_record, to_json
from proctor.core.result import AgentMetrics, Attempt, ModelUsage, TaskResult, Tokens
from proctor.core.submission import PatchKind
from proctor.core.task import DirectorySource, Oracle, PrivatePart, PublicPart, Task
from proctor.core.verdict import Finding, TestOutcome, TestStatus, Verdict
from proctor.schema import RECORDS, json_schema

VERDICT = Verdict(
    task_id="t/1",
    status=Status.RESOLVED,
    cause=Cause.SOLVED,
    reason="all 2 named tests pass",
    tests=(TestOutcome(id="a", before=TestStatus.FAILED, after=TestStatus.PASSED),),
    findings=(Finding(code="conftest", path="conftest.py", detail="touched"),),
)
EXAMPLES: dict[str, Any] = {
    "task": Task(
        id="t/1",
        benchmark="core",
        public=PublicPart(instruction="Fix it.", source=DirectorySource(path="/srv/repo")),
        private=PrivatePart(oracle=Oracle(text="--- a", patch_kind=PatchKind.UNIFIED_DIFF), fail_to_pass=("a",)),
    ),
    "verdict": VERDICT,
    "task-result": TaskResult(
        run_id="r1",
        benchmark="core",
        task_id="t/1",
        trial=1,
        status=Status.RESOLVED,
        cause=Cause.SOLVED,
        verdict=VERDICT,
        attempts=(
            Attempt(number=1, started_at="s", ended_at="e", cause=Cause.PROVIDER_ERROR, detail="529", logs="logs/1"),
        ),
        usage=(ModelUsage(model="m", requests=2, tokens=Tokens(input=1), cost_usd=None),),
        metrics=AgentMetrics(),
        agent_seconds=1.5,
        grade_seconds=0.5,
        categories={"language": "python"},
    ),
}


@pytest.mark.parametrize("name", sorted(EXAMPLES))
def test_a_record_survives_the_way_through_json_and_fits_its_schema(name: str) -> None:
    record = EXAMPLES[name]
    encoded = to_json(record)
    assert from_json(encoded, type(record)) == record
    jsonschema.validate(json.loads(encoded), json_schema(name))


@pytest.mark.parametrize("name", sorted(RECORDS))
def test_the_shipped_schema_is_the_generated_one(name: str) -> None:
    shipped = Path(proctor.__file__).parent / "schemas" / f"{name}.schema.json"
    assert shipped.read_bytes() == to_json(json_schema(name)), "run `make schemas`"


def test_the_shipped_types_of_options_are_the_generated_ones() -> None:
    shipped = Path(proctor.__file__).parent / "options.py"
    assert shipped.read_text() == render(), "run `make schemas`"


def test_records_cannot_be_changed() -> None:
    with pytest.raises(AttributeError):
        VERDICT.status = Status.ERROR  # type: ignore[misc]


def test_a_record_of_another_version_is_refused_with_its_place(tmp_path: Path) -> None:
    file = tmp_path / "verdict.json"
    file.write_bytes(to_json(VERDICT).replace(b"proctor.verdict@1", b"proctor.verdict@9"))
    with pytest.raises(InvalidData, match=r"verdict\.json: not a valid verdict: .*schema_version.*; another version"):
        read_record(file, Verdict)


class _TwoWords(Record):
    number: int


def test_errors_in_a_file_do_not_mention_class_names() -> None:
    with pytest.raises(InvalidData, match=r"^this is not JSON: JSON is malformed"):
        from_json(b"root:x:0", _TwoWords)
    with pytest.raises(InvalidData, match=r"^this is not JSON: Input data was truncated"):
        from_json(b'{"number": ', _TwoWords)
    with pytest.raises(InvalidData, match=r"^not a valid two words: Object missing required field `number`"):
        from_json(b"{}", _TwoWords)


def test_an_unknown_field_of_a_newer_minor_version_is_ignored() -> None:
    document = msgspec.json.decode(to_json(VERDICT))
    document["added_later"] = 1
    assert from_json(json.dumps(document), Verdict) == VERDICT


def test_a_document_that_is_nested_too_deeply_is_refused_and_does_not_overflow() -> None:
    with pytest.raises(InvalidData, match="nested too deeply"):
        from_json(b'{"x":' + b"[" * 100_000, Verdict)


def test_every_cause_has_a_consequence() -> None:
    assert set(CONSEQUENCES) == set(Cause)


def test_infrastructure_causes_are_never_counted_and_counted_causes_are_never_retried() -> None:
    for cause, consequence in CONSEQUENCES.items():
        if consequence.status in {Status.ERROR, Status.SKIPPED}:
            assert not consequence.counted, cause
        if consequence.counted:
            assert not consequence.retry, cause


def test_tokens_add_up_class_by_class() -> None:
    one = Tokens(input=1, output=2, cache_read=3, cache_write_5m=4, cache_write_1h=5)
    assert one + one == Tokens(input=2, output=4, cache_read=6, cache_write_5m=8, cache_write_1h=10)
    assert one.total == 15


def test_text_that_is_no_unicode_is_written_with_its_odd_bytes_spelled_out() -> None:
    odd = msgspec.structs.replace(VERDICT, findings=(Finding(code="c", path="caf\udce9.py", detail="d"),))
    assert from_json(to_json(odd), Verdict).findings[0].path == "caf\\xe9.py"
