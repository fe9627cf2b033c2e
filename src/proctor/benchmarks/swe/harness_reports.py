"""Results in the forms of the official harnesses: what each says of a whole run, read and written."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from proctor.core.causes import Cause, Status
from proctor.core.errors import InvalidData, UsageError
from proctor.core.record import Record
from proctor.core.user_files import parse_json, read_user_bytes

_ERROR_CAUSES: Final = frozenset({Cause.DOES_NOT_APPLY, Cause.TEST_TIMEOUT})


class SweOutcome(Record):
    """What a harness reports on one prediction.

    Attributes:
        resolved: by the official rule.
        cause: why, as closely as the form says.
        score: SWE-EVO's fix rate or FeatureBench's pass rate.
        tests: the labels that came out as they should, and those that did not, where they are listed.
    """

    instance_id: str
    resolved: bool
    cause: Cause
    score: float | None = None
    tests: dict[str, bool] | None = None

    @property
    def status(self) -> Status:
        """The cause in a word."""
        return Status.RESOLVED if self.resolved else Status.UNRESOLVED

    @property
    def score_or_resolved(self) -> float:
        """How much of it is right: what is resolved is right as a whole, also where its parts were not counted."""
        return float(self.resolved) if self.score is None else self.score


def to_swebench_report(outcomes: Sequence[SweOutcome], total: Sequence[str]) -> bytes:
    """SWE-bench's report of a run, schema version 2. `total` are the ids of all tasks, with a prediction or without."""
    ids: dict[str, list[str]] = {name: [] for name in ("empty_patch", "error", "resolved", "unresolved")}
    for outcome in outcomes:
        if outcome.resolved:
            ids["resolved"].append(outcome.instance_id)
        elif outcome.cause is Cause.EMPTY:
            ids["empty_patch"].append(outcome.instance_id)
        else:
            ids["error" if outcome.cause in _ERROR_CAUSES else "unresolved"].append(outcome.instance_id)
    submitted = {outcome.instance_id for outcome in outcomes}
    ids |= {
        "completed": ids["resolved"] + ids["unresolved"],
        "incomplete": [identity for identity in total if identity not in submitted],
        "submitted": list(submitted),
        "infra_failure": [],
        "ambiguous_failure": [],
    }
    counted = [name for name in ids if name != "incomplete"]
    return _json(
        {"total_instances": len(set(total) | submitted)}
        | {f"{name}_instances": len(ids[name]) for name in counted}
        | {f"{name}_ids": sorted(found) for name, found in ids.items()}
        | {"failure_reasons": {}, "schema_version": 2}
    )


def to_pro_report(outcomes: Sequence[SweOutcome], total: Sequence[str]) -> bytes:
    """Pro's eval_results.json. A task without a prediction is false: its own grader would leave it out."""
    known = {outcome.instance_id: outcome.resolved for outcome in outcomes}
    return _json({identity: known.get(identity, False) for identity in sorted({*total, *known})})


def to_evo_report(outcomes: Sequence[SweOutcome], total: Sequence[str]) -> bytes:
    """SWE-EVO's numbers over all tasks: resolved, applied, and fix rate."""
    number = len({*total, *(outcome.instance_id for outcome in outcomes)}) or 1
    applied = [outcome for outcome in outcomes if outcome.cause is not Cause.DOES_NOT_APPLY]
    return _json(
        {
            "total_instances": number,
            "resolved_rate": sum(outcome.resolved for outcome in outcomes) / number,
            "applied_rate": len(applied) / number,
            "fix_rate": sum(outcome.score_or_resolved for outcome in outcomes) / number,
            "instances": {
                outcome.instance_id: {"resolved": outcome.resolved, "fix_rate": outcome.score_or_resolved}
                for outcome in sorted(outcomes, key=lambda outcome: outcome.instance_id)
            },
        }
    )


def to_feature_report(outcomes: Sequence[SweOutcome], total: Sequence[str]) -> bytes:
    """FeatureBench's report of one attempt, over all tasks."""
    number = len({*total, *(outcome.instance_id for outcome in outcomes)}) or 1
    named = {
        name: sorted(outcome.instance_id for outcome in outcomes if outcome.cause is cause)
        for name, cause in (("empty", Cause.EMPTY), ("other", Cause.DOES_NOT_APPLY))
    }
    return _json(
        {
            "attempt_1": {
                "total_instances": number,
                "resolved_rate": round(sum(outcome.resolved for outcome in outcomes) / number, 4),
                "pass_rate": round(sum(outcome.score_or_resolved for outcome in outcomes) / number, 4),
                "resolved_instances": sorted(outcome.instance_id for outcome in outcomes if outcome.resolved),
                "not_applied_patch_empty_instances": named["empty"],
                "not_applied_patch_other_instances": named["other"],
                "pass_rates": {outcome.instance_id: outcome.score_or_resolved for outcome in outcomes},
            }
        }
    )


def read_outcomes(source: Path) -> list[SweOutcome]:
    """What a harness's report says, whichever of the four wrote it; of a folder, all reports of instances below it.

    Raises:
        UsageError: nothing there is a report.
        InvalidData: one is broken.
    """
    if source.is_dir():
        found = [outcome for file in sorted(source.rglob("report.json")) for outcome in read_outcomes(file)]
        if not found:
            raise UsageError("no report.json is below this folder", where=source)
        return found
    document = _document(source)
    for reader in (_swebench, _instances, _features, _rates, _booleans):
        outcomes = reader(document)
        if outcomes is not None:
            return outcomes
    raise InvalidData("this is not a report of any harness of the SWE family", where=source)


def _document(file: Path) -> Mapping[str, Any]:
    try:
        document = parse_json(read_user_bytes(file, "the report"))
    except ValueError as error:
        raise InvalidData(f"this is not JSON: {error}", where=file) from error
    if not isinstance(document, dict):
        raise InvalidData("a report is an object", where=file)
    return document


def _swebench(document: Mapping[str, Any]) -> list[SweOutcome] | None:
    """SWE-bench's report of a run; version 1 had the same lists."""
    if not {"resolved_ids", "unresolved_ids"} <= document.keys():
        return None
    causes = {
        "resolved_ids": Cause.SOLVED,
        "unresolved_ids": Cause.TESTS_FAILED,
        "error_ids": Cause.DOES_NOT_APPLY,
        "empty_patch_ids": Cause.EMPTY,
    }
    return [
        SweOutcome(instance_id=str(identity), resolved=cause is Cause.SOLVED, cause=cause)
        for name, cause in causes.items()
        for identity in document.get(name) or ()
    ]


def _instances(document: Mapping[str, Any]) -> list[SweOutcome] | None:
    """An instance's own report: of SWE-bench and SWE-EVO by its id, of FeatureBench without."""
    entries = document.values()
    if not entries or not all(isinstance(entry, dict) and "patch_exists" in entry for entry in entries):
        return None
    return [_instance(identity, entry) for identity, entry in document.items()]


def _instance(identity: str, entry: Mapping[str, Any]) -> SweOutcome:
    resolved = entry.get("resolved") is True
    cause = Cause.SOLVED if resolved else Cause.TESTS_FAILED
    if entry.get("patch_is_None"):
        cause = Cause.EMPTY
    elif not entry.get("patch_successfully_applied"):
        cause = Cause.TESTS_VANISHED
    status = entry.get("tests_status")
    labels = [status.get(name) or {} for name in ("FAIL_TO_PASS", "PASS_TO_PASS")] if isinstance(status, dict) else []
    tests = {
        test: name == "success" for label in labels for name in ("success", "failure") for test in label.get(name) or ()
    }
    score = entry.get("pass_rate")
    return SweOutcome(
        instance_id=identity,
        resolved=resolved,
        cause=cause,
        tests=tests or None,
        score=float(score) if isinstance(score, int | float) else None,
    )


def _features(document: Mapping[str, Any]) -> list[SweOutcome] | None:
    attempt = document.get("attempt_1")
    if not isinstance(attempt, dict) or "resolved_instances" not in attempt:
        return None
    resolved, rates = set(attempt["resolved_instances"]), attempt.get("pass_rates") or {}
    causes = dict.fromkeys(attempt.get("not_applied_patch_empty_instances") or (), Cause.EMPTY)
    causes |= dict.fromkeys(attempt.get("not_applied_patch_other_instances") or (), Cause.DOES_NOT_APPLY)
    return [
        SweOutcome(
            instance_id=identity,
            resolved=identity in resolved,
            cause=Cause.SOLVED if identity in resolved else causes.get(identity, Cause.TESTS_FAILED),
            score=rates.get(identity),
        )
        for identity in sorted({*resolved, *rates, *causes})
    ]


def _rates(document: Mapping[str, Any]) -> list[SweOutcome] | None:
    found = document.get("instances")
    if "fix_rate" not in document or not isinstance(found, dict):
        return None
    return [
        SweOutcome(
            instance_id=identity,
            resolved=entry.get("resolved") is True,
            cause=Cause.SOLVED if entry.get("resolved") is True else Cause.TESTS_FAILED,
            score=entry.get("fix_rate"),
        )
        for identity, entry in found.items()
    ]


def _booleans(document: Mapping[str, Any]) -> list[SweOutcome] | None:
    if not document or not all(isinstance(value, bool) for value in document.values()):
        return None
    return [
        SweOutcome(instance_id=identity, resolved=value, cause=Cause.SOLVED if value else Cause.TESTS_FAILED)
        for identity, value in document.items()
    ]


def _json(document: Any) -> bytes:
    return json.dumps(document, indent=4).encode() + b"\n"
