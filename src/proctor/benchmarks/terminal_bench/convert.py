"""From a task of Terminal-Bench 1 to the same in Harbor's format, as far as one container will do."""

import json
import shutil
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import Any, Final

from proctor.core.errors import InvalidData
from proctor.core.user_files import parse_document, parse_yaml

_AGENT_SECONDS: Final = 360
_TEST_SECONDS: Final = 60
# Everything else in the old folder is what the Dockerfile copies from.
_NOT_CONTEXT: Final = (
    "task.yaml",
    "task.*.yaml",
    "docker-compose.yaml",
    "run-tests.sh",
    "solution.*",
    "tests",
    "Dockerfile",
)
# The old harness read the results off the screen; the script's own status is the tests'.
_TEST: Final = """#!/bin/bash
export TEST_DIR=/tests T_BENCH_TEST_DIR=/tests
bash /tests/run-tests.sh
if [ $? -eq 0 ]; then echo 1 >/logs/verifier/reward.txt; else echo 0 >/logs/verifier/reward.txt; fi
"""


def variants(folder: Path) -> dict[str, Path]:
    """The tasks of an old folder: its own, and those of other difficulty that share all but the instruction."""
    return {
        folder.name + file.name.removeprefix("task").removesuffix(".yaml"): file
        for file in sorted(folder.glob("task*.yaml"))
    }


def convert(folder: Path, into: Path, config: str = "task.yaml") -> None:
    """Write below `into` the task whose file is `config` in an old folder.

    Raises:
        InvalidData: it cannot be had in the new format; says why.
    """
    old = _yaml(folder / config)
    _require_one_container(folder)
    for needed in ("Dockerfile", "run-tests.sh"):
        if not (folder / needed).is_file():
            raise InvalidData(f"there is no {needed}", where=folder)
    if old.get("parser_name", "pytest") != "pytest":
        raise InvalidData(
            f"its results are read by {old['parser_name']!r}, not by pytest's rules", where=folder / config
        )
    if old.get("run_tests_in_same_shell"):
        raise InvalidData("its tests run in the agent's own shell", where=folder / config)
    instruction = old.get("instruction")
    if not isinstance(instruction, str):
        raise InvalidData("there is no instruction", where=folder / config)
    environment = into / "environment"
    shutil.copytree(folder, environment, ignore=partial(_not_context, folder))
    dockerfile = (folder / "Dockerfile").read_text(encoding="utf-8")
    (environment / "Dockerfile").write_text(f"{dockerfile.rstrip()}\nENV TEST_DIR=/tests\n", encoding="utf-8")
    (into / "instruction.md").write_text(instruction, encoding="utf-8")
    (into / "task.toml").write_text(_task_toml(old), encoding="utf-8")
    tests = into / "tests"
    if (folder / "tests").is_dir():
        shutil.copytree(folder / "tests", tests)
    tests.mkdir(exist_ok=True)
    shutil.copy(folder / "run-tests.sh", tests / "run-tests.sh")
    (tests / "test.sh").write_text(_TEST, encoding="utf-8")
    if (folder / "solution.sh").is_file():
        (into / "solution").mkdir()
        shutil.copy(folder / "solution.sh", into / "solution" / "solve.sh")


def _not_context(folder: Path, directory: str, names: list[str]) -> list[str]:
    """Which of a folder's own names the Dockerfile does not copy from; below it, every name may be one."""
    if Path(directory) != folder:
        return []
    return [name for name in names if any(fnmatchcase(name, pattern) for pattern in _NOT_CONTEXT)]


def _task_toml(old: dict[str, Any]) -> str:
    metadata = {
        key: old[key]
        for key in ("author_name", "author_email", "difficulty", "category", "tags", "estimated_duration_sec")
        if old.get(key) is not None
    }
    # Strings and lists of strings of JSON are TOML too.
    lines = [f"{key} = {json.dumps(value)}" for key, value in metadata.items()]
    return "\n".join(
        [
            'version = "1.0"',
            "[metadata]",
            *lines,
            "[agent]",
            f"timeout_sec = {float(old.get('max_agent_timeout_sec', _AGENT_SECONDS))}",
            "[verifier]",
            f"timeout_sec = {float(old.get('max_test_timeout_sec', _TEST_SECONDS))}",
            "",
        ]
    )


def _require_one_container(folder: Path) -> None:
    file = folder / "docker-compose.yaml"
    if not file.is_file():
        return
    services = _yaml(file).get("services") or {}
    if set(services) - {"client"}:
        others = ", ".join(sorted(set(services) - {"client"}))
        raise InvalidData(f"it needs more containers than one: {others}", where=file)


def _yaml(file: Path) -> dict[str, Any]:
    value = parse_document(file, "it", parse_yaml, "YAML", error=InvalidData)
    if not isinstance(value, dict):
        raise InvalidData("this is not one object", where=file)
    return value
