"""Reads predictions: submissions from a file that somebody brings, one JSON object a line."""

import json
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Annotated, Any, Final

import msgspec

from proctor.core.errors import UsageError
from proctor.core.evaluation import Prediction
from proctor.core.submission import PatchKind
from proctor.core.suggestions import closest
from proctor.core.user_files import BoundExceeded, parse_json, read_limited

MAX_PREDICTIONS_BYTES: Final = 1 << 28
PREDICTION_SCHEMA: Final = "proctor.prediction@1"

NonEmptyText = Annotated[str, msgspec.Meta(min_length=1)]
RelPath = Annotated[
    str,
    msgspec.Meta(
        min_length=1,
        max_length=1024,
        pattern=r"^(?![\\/])(?![A-Za-z]:)(?!.*(?:^|[\\/])\.\.(?:[\\/]|$)).+$",
        description="a relative path that does not leave its folder",
    ),
]


class PredictionLine(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One line of a predictions file; exactly one of `patch_path` and `patch_inline` is given.

    Attributes:
        schema_version: ours, or what another tool's files of the same form say.
    """

    instance_id: NonEmptyText
    patch_kind: PatchKind
    schema_version: str | None = None
    patch_path: RelPath | None = None
    patch_inline: str | dict[str, Any] | None = None
    model_name_or_path: str | None = None
    model: str | None = None
    note: str | None = None
    meta: Any = None


_KEYS: Final = frozenset(PredictionLine.__struct_fields__)


class _InlinePatch(msgspec.Struct):
    """The patch set as it stands in the line: reading and writing it again would change its numbers."""

    patch_inline: msgspec.Raw


class _InvalidPrediction(Exception):
    """Why a line is no prediction."""


def read_predictions(file: Path, *, schemas: Collection[str] = ()) -> dict[str, Prediction]:
    """Read a whole file before anything runs. `schemas` are other tools' versions that lines may state.

    Raises:
        UsageError: any line is bad; lists every bad line.
    """
    try:
        lines = read_limited(file, limit=MAX_PREDICTIONS_BYTES).decode("utf-8-sig").split("\n")
    except OSError as error:
        raise UsageError(f"cannot read predictions: {error.strerror}", where=file) from error
    except BoundExceeded as error:
        raise UsageError(f"cannot read predictions: {error}", where=file) from error
    except UnicodeDecodeError as error:
        raise UsageError("cannot read predictions: they are not UTF-8 text", where=file) from error
    predictions: dict[str, Prediction] = {}
    problems: list[str] = []
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            prediction = _prediction(line, file.parent, (PREDICTION_SCHEMA, *schemas))
            if prediction.task_id in predictions:
                raise _InvalidPrediction(f"{prediction.task_id!r} has a prediction already")
            predictions[prediction.task_id] = prediction
        except _InvalidPrediction as wrong:
            problems.append(f"{file}:{number}: {wrong}")
    if problems:
        count = "1 bad line" if len(problems) == 1 else f"{len(problems)} bad lines"
        raise UsageError(f"{count} in the predictions, nothing was run", where=file, details=problems)
    return predictions


def _prediction(line: str, folder: Path, schemas: Collection[str]) -> Prediction:
    try:
        document = parse_json(line, parse_constant=_reject_constant)
    except ValueError as error:
        raise _InvalidPrediction(f"not JSON: {error}") from error
    if not isinstance(document, dict):
        raise _InvalidPrediction("a prediction is a JSON object")
    unknown = sorted(document.keys() - _KEYS)
    if unknown:
        raise _InvalidPrediction(f"there is no key {unknown[0]!r}{_meant(unknown[0])}")
    version = document.get("schema_version")
    if version is not None and version not in schemas:
        known = " or ".join(map(repr, schemas))
        raise _InvalidPrediction(f"schema_version {version!r} is not {known}")
    instance_id = document.get("instance_id")
    if not isinstance(instance_id, str) or not instance_id.strip():
        raise _InvalidPrediction("instance_id is missing or empty")
    kind = _kind(document.get("patch_kind"))
    return Prediction(
        task_id=instance_id,
        patch_kind=kind,
        content=_content(line, document, kind, folder),
        model=_model(document),
    )


def _meant(name: str) -> str:
    near = closest(name, _KEYS)
    return f"; did you mean {near!r}?" if near else ""


def _reject_constant(word: str) -> None:
    raise ValueError(f"{word} is not JSON")


def _kind(value: object) -> PatchKind:
    # A state is graded where it is, and artifacts carry what our verifiers have seen: a file cannot prove either.
    kinds = [kind for kind in PatchKind if kind not in {PatchKind.STATE, PatchKind.ARTIFACTS}]
    word = str(value).strip()
    for kind in kinds:
        if kind == word.replace("_", "-"):
            return kind
    raise _InvalidPrediction(f"patch_kind {value!r} is not {' or '.join(kinds)}")


def _content(line: str, document: dict[str, Any], kind: PatchKind, folder: Path) -> bytes:
    path, inline = document.get("patch_path"), document.get("patch_inline")
    if (path is None) == (inline is None):
        raise _InvalidPrediction("give exactly one of patch_path and patch_inline")
    if path is not None:
        return _file_content(path, folder)
    if kind is not PatchKind.PATCH_SET:
        if not isinstance(inline, str):
            what = "a unified diff" if kind is PatchKind.UNIFIED_DIFF else "a script"
            raise _InvalidPrediction(f"{what} is given as a string")
        return inline.encode(errors="surrogateescape")
    if not isinstance(inline, dict):
        raise _InvalidPrediction("a patch set is given as an object")
    return bytes(msgspec.json.decode(line, type=_InlinePatch).patch_inline)


def _file_content(path: object, folder: Path) -> bytes:
    if not isinstance(path, str) or not _is_inside(path):
        raise _InvalidPrediction(f"patch_path {path!r} is not a path below the predictions file")
    file = folder / path
    if not file.resolve().is_relative_to(folder.resolve()):
        raise _InvalidPrediction(f"patch_path {path!r} leads out of the predictions' folder")
    try:
        return read_limited(file)
    except (OSError, ValueError) as error:
        message = error.strerror if isinstance(error, OSError) else error
        raise _InvalidPrediction(f"cannot read patch_path {path}: {message}") from error


def _is_inside(path: str) -> bool:
    parts = Path(path).parts
    return bool(parts) and "\\" not in path and "\0" not in path and not Path(path).is_absolute() and ".." not in parts


def _model(document: dict[str, Any]) -> str | None:
    """What made the submission: the model, else the note, each followed by the meta."""

    def words() -> Iterator[str]:
        for keys in (("model_name_or_path", "model"), ("note",)):
            named = next((document[key] for key in keys if isinstance(document.get(key), str)), None)
            if named:
                yield named
                break
        if document.get("meta") is not None:
            yield f"meta={json.dumps(document['meta'], separators=(',', ':'), sort_keys=True)}"

    return " ".join(words()) or None
