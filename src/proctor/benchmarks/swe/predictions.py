"""Predictions in the forms of the official harnesses: all four are read alike, each is written in its own form.

| | file | patch |
|---|---|---|
| SWE-bench | JSON lines, a list, or an object by id | `model_patch` |
| SWE-bench Pro | a list | `patch`, with a `prefix` |
| SWE-EVO | an object by id, or OpenHands' JSON lines | `model_patch`, or `test_result.git_patch` |
| FeatureBench | JSON lines | `model_patch`, with `n_attempt` and `success` |
"""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from proctor.benchmarks.swe.patches import with_final_newline
from proctor.core.errors import UsageError
from proctor.core.evaluation import Prediction
from proctor.core.formatting import plural
from proctor.core.predictions import MAX_PREDICTIONS_BYTES
from proctor.core.record import Record
from proctor.core.submission import PatchKind
from proctor.core.user_files import BoundExceeded, parse_json, read_user_bytes


class SwePrediction(Record):
    """One prediction, with the fields of all four forms.

    Attributes:
        model_patch: None where the agent handed nothing in.
        n_attempt: counted from 1.
        success: whether the agent came to its end; FeatureBench leaves the others out of its count.
    """

    instance_id: str
    model_patch: str | None
    model: str = ""
    n_attempt: int = 1
    prefix: str = ""
    success: bool = True

    @property
    def prediction(self) -> Prediction:
        """The prediction as our graders take it."""
        content = (self.model_patch or "").encode("utf-8", "surrogateescape")
        return Prediction(
            task_id=self.instance_id, patch_kind=PatchKind.UNIFIED_DIFF, content=content, model=self.model or None
        )


def read_swe_predictions(file: Path) -> list[SwePrediction]:
    """The predictions in a file of any of the four forms.

    Raises:
        UsageError: it cannot be read, or a line or entry of it is no prediction; lists every bad one.
    """
    data = read_user_bytes(file, "predictions", limit=MAX_PREDICTIONS_BYTES)
    text = data.decode("utf-8-sig", "surrogateescape")
    predictions: list[SwePrediction] = []
    problems: list[str] = []
    for place, entry in _entries(text, file):
        try:
            predictions.append(_swe_prediction(entry))
        except _InvalidPredictionRow as wrong:
            problems.append(f"{file}:{place}: {wrong}")
    if problems:
        raise UsageError(f"{plural(len(problems), 'bad prediction')}, nothing was run", where=file, details=problems)
    return predictions


def first_attempts(predictions: Iterable[SwePrediction], file: Path) -> dict[str, Prediction]:
    """One prediction for each task: the first attempt.

    Raises:
        UsageError: two predictions are the same attempt at one task.
    """
    chosen: dict[str, SwePrediction] = {}
    for prediction in predictions:
        known = chosen.get(prediction.instance_id)
        if known is not None and known.n_attempt == prediction.n_attempt:
            raise UsageError(f"{prediction.instance_id} has two predictions", where=file)
        if known is None or prediction.n_attempt < known.n_attempt:
            chosen[prediction.instance_id] = prediction
    return {identity: prediction.prediction for identity, prediction in chosen.items()}


class _InvalidPredictionRow(Exception):
    """What is wrong with one entry."""


def _entries(text: str, file: Path) -> Iterable[tuple[str, Any]]:
    """Every entry with its place: a list's, an object's values with their ids, or one a line."""
    if file.suffix != ".jsonl":
        try:
            whole = parse_json(text)
        except ValueError as error:
            if file.suffix == ".json" or isinstance(error, BoundExceeded):
                raise UsageError(f"this is not JSON: {error}", where=file) from error
        else:
            if isinstance(whole, list):
                return [(f"[{number}]", entry) for number, entry in enumerate(whole)]
            if isinstance(whole, dict) and whole and all(isinstance(entry, dict) for entry in whole.values()):
                return [(identity, {"instance_id": identity, **entry}) for identity, entry in whole.items()]
            return [("1", whole)]
    found: list[tuple[str, Any]] = []
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            try:
                found.append((str(number), parse_json(line)))
            except ValueError as error:
                found.append((str(number), _InvalidPredictionRow(f"not JSON: {error}")))
    return found


def _swe_prediction(entry: Any) -> SwePrediction:
    if isinstance(entry, _InvalidPredictionRow):
        raise entry
    if not isinstance(entry, dict):
        raise _InvalidPredictionRow("not an object")
    identity = entry.get("instance_id")
    if not isinstance(identity, str) or not identity:
        raise _InvalidPredictionRow("it has no instance_id")
    result = entry.get("test_result")
    inner = result.get("git_patch") if isinstance(result, dict) else None
    if not {"model_patch", "patch"} & entry.keys() and not isinstance(result, dict):
        raise _InvalidPredictionRow(f"{identity} has none of model_patch, patch and test_result.git_patch")
    patch = entry.get("model_patch", entry.get("patch", inner))
    if patch is not None and not isinstance(patch, str):
        raise _InvalidPredictionRow(f"the patch of {identity} is not a string")
    attempt = entry.get("n_attempt", 1)
    return SwePrediction(
        instance_id=identity,
        model_patch=patch,
        model=str(entry.get("model_name_or_path") or ""),
        n_attempt=attempt if isinstance(attempt, int) else 1,
        prefix=str(entry.get("prefix") or ""),
        success=entry.get("success") is not False,
    )


def has_invalid_utf8(prediction: SwePrediction) -> bool:
    """Whether the patch has bytes that no text in JSON can carry."""
    return any("\udc80" <= letter <= "\udcff" for letter in prediction.model_patch or "")


def to_swebench(predictions: Iterable[SwePrediction], model: str) -> bytes:
    """SWE-bench: JSON lines."""
    return _lines(
        {
            "instance_id": prediction.instance_id,
            "model_name_or_path": prediction.model or model,
            "model_patch": _patch_text(prediction),
        }
        for prediction in predictions
    )


def to_pro(predictions: Iterable[SwePrediction], prefix: str) -> bytes:
    """SWE-bench Pro: a list. Its grader has one way to apply a patch, so each ends in a line end."""
    entries = [
        {
            "instance_id": prediction.instance_id,
            "patch": _patch_text(prediction) or "",
            "prefix": prediction.prefix or prefix,
        }
        for prediction in predictions
    ]
    return json.dumps(entries, indent=2).encode() + b"\n"


def to_evo(predictions: Iterable[SwePrediction], model: str) -> bytes:
    """SWE-EVO: an object by id, as SWE-agent's preds.json."""
    entries = {
        prediction.instance_id: {
            "model_name_or_path": prediction.model or model,
            "instance_id": prediction.instance_id,
            "model_patch": _patch_text(prediction) or "",
        }
        for prediction in predictions
    }
    return json.dumps(entries, indent=2).encode() + b"\n"


def to_featurebench(predictions: Iterable[SwePrediction], model: str) -> bytes:
    """FeatureBench: JSON lines. `success` is always true: its harness would leave out the others, and count fewer."""
    return _lines(
        {
            "instance_id": prediction.instance_id,
            "model_name_or_path": prediction.model or model,
            "n_attempt": prediction.n_attempt,
            "model_patch": _patch_text(prediction) or "",
            "success": True,
        }
        for prediction in predictions
    )


def _patch_text(prediction: SwePrediction) -> str | None:
    if prediction.model_patch is None:
        return None
    return with_final_newline(prediction.model_patch.encode("utf-8", "surrogateescape")).decode(
        "utf-8", "backslashreplace"
    )


def _lines(entries: Iterable[Mapping[str, Any]]) -> bytes:
    return b"".join(json.dumps(entry).encode() + b"\n" for entry in entries)
