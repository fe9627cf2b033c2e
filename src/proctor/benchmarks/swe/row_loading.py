"""Where the rows come from: the hub, git repositories, or a copy on this machine, in any form they are published in."""

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from proctor.benchmarks.data import download_from_hub, read_rows
from proctor.core.errors import InvalidData, UsageError
from proctor.core.user_files import parse_json, parse_yaml, read_limited

RawRows = list[dict[str, Any]]
_ENVIRONMENT_FILES: Final = {"environment_yml": "environment.yml", "dockerfile": "Dockerfile"}
TASKS_REPOSITORY: Final = "https://github.com/SWE-bench/swe-bench-tasks"
PRO_REPOSITORY: Final = "https://github.com/scaleapi/SWE-bench_Pro-os"
EVO_REPOSITORY: Final = "https://github.com/SWE-EVO/SWE-EVO"


def rows_from_copy(origin: Path) -> RawRows:
    """Rows from a file or folder: parquet, JSON, JSON lines, CSV, or the folders of SWE-bench's task repository."""
    if origin.is_dir():
        folders = sorted(file.parent for file in origin.rglob("task.yaml"))
        if folders:
            return [_task_folder(folder) for folder in folders]
    return read_rows(origin)


def _task_folder(folder: Path) -> dict[str, Any]:
    """One task of SWE-bench/swe-bench-tasks."""
    try:
        row = parse_yaml(_text(folder / "task.yaml"))
        row |= parse_json(_text(folder / "tests.json"))
        texts = {
            "problem_statement": "problem_statement.md",
            "hints_text": "hints.md",
            "patch": "gold.patch",
            "test_patch": "test.patch",
            "eval_script": "eval.sh",
            **_ENVIRONMENT_FILES,
        }
        row |= {name: _text(folder / file) for name, file in texts.items() if (folder / file).exists()}
    except (OSError, ValueError, TypeError) as error:
        raise InvalidData(f"is not a task folder: {error}", where=folder) from error
    return {name: str(value) if name in {"version", "created_at"} else value for name, value in row.items()}


def _text(file: Path) -> str:
    return read_limited(file).decode("utf-8")


def hub_rows(repo: str, files: Sequence[str]) -> tuple[RawRows, str]:
    """Rows of a data set on the hub, and their revision."""
    with tempfile.TemporaryDirectory(prefix="proctor-fetch-") as folder:
        found = download_from_hub(repo, files, Path(folder) / "files")
        return read_rows(Path(folder) / "files"), found


def evo_rows(origin: Path) -> RawRows:
    """SWE-EVO's task files: of a clone, those that its own evaluator reads.

    A clone of SWE-bench's task repository beside them brings the environments of the instances whose images these use.
    """
    inner = (
        next((path for path in origin.rglob("output_final") if path.is_dir()), origin) if origin.is_dir() else origin
    )
    if inner == origin:
        return rows_from_copy(origin)
    return with_environments(rows_from_copy(inner), origin, key="instance_id_swe")


def with_environments(rows: RawRows, repository: Path, *, key: str = "instance_id") -> RawRows:
    """Rows with the environment and the Dockerfile that SWE-bench's task repository has for the instance in `key`."""
    folders = {file.parent.name: file.parent for file in repository.rglob("task.yaml")}

    def shipped(row: Mapping[str, Any]) -> dict[str, str]:
        folder = folders.get(str(row.get(key)))
        files = {} if folder is None else {name: folder / file for name, file in _ENVIRONMENT_FILES.items()}
        return {name: _text(file) for name, file in files.items() if file.exists()}

    return [{**shipped(row), **row} for row in rows]


def with_scripts(rows: RawRows, repository: Path) -> RawRows:
    """Pro's rows with what its repository ships for each instance: run script, parser, Dockerfiles."""

    def read(*parts: str) -> str:
        try:
            return repository.joinpath(*parts).read_text(encoding="utf-8", errors="surrogateescape")
        except OSError:
            return ""

    def shipped(row: Mapping[str, Any]) -> dict[str, Any]:
        identity = str(row.get("instance_id"))
        files = [
            read("dockerfiles", kind, identity, "Dockerfile") for kind in ("base_dockerfile", "instance_dockerfile")
        ]
        return {
            "run_script": read("run_scripts", identity, "run_script.sh"),
            "parser": read("run_scripts", identity, "parser.py"),
            "dockerfiles": [text for text in files if text],
        }

    return [{**row, **{name: value for name, value in shipped(row).items() if value}} for row in rows]


def pro_rows_from_copy(origin: Path) -> RawRows:
    """Pro's rows from a copy: a file of rows, or a clone of its repository with the rows somewhere in it."""
    if not origin.is_dir():
        return read_rows(origin)
    clone = next((path.parent for path in (origin, *origin.glob("*")) if path.name == "run_scripts"), None)
    clone = clone or (origin if (origin / "run_scripts").is_dir() else None)
    files = [file for file in origin.rglob("*") if file.suffix in {".jsonl", ".csv", ".parquet"} and file.is_file()]
    if clone is None:
        return read_rows(origin)
    if not files:
        raise UsageError(
            "holds run scripts, but no rows", where=origin, fix="put the rows (JSONL, CSV, parquet) beside"
        )
    return with_scripts([row for file in sorted(files) for row in read_rows(file)], clone)
