"""Data beside a verifier's tests, with other values."""

import json
from pathlib import Path

from harbor_world import TASKS, write_task
from proctor.benchmarks.harbor.task_format import read_task
from proctor.benchmarks.harbor.test_data import altered_data


def altered(folder: Path, files: dict[str, str]) -> dict[str, str]:
    tests = {f"tests/{name}": text for name, text in files.items()}
    step = read_task(write_task(folder, TASKS["greet"] | tests)).steps[0]
    return {name: data.decode() for name, data in altered_data(step).items()}


def test_values_are_altered_and_names_stay(tmp_path: Path) -> None:
    made = altered(
        tmp_path / "t",
        {
            "expected.txt": "1729\n",
            "key.json": '{"first": "alpha", "second": [1, true, null, {"x": 0.5}]}',
            "rows.csv": "name,size\nalpha,12\n",
            "more.yaml": "name: alpha\nsize: 12\n",
            "lines.jsonl": '{"name": "alpha"}\n{"name": "beta"}\n',
        },
    )
    assert made["expected.txt"] == "2831\n"
    assert json.loads(made["key.json"]) == {"first": "elphe", "second": [2, False, None, {"x": 1.5}]}
    assert made["rows.csv"] == "name,size\nelphe,23\n"
    assert made["more.yaml"] == "name: elphe\nsize: 23\n"
    assert [json.loads(line) for line in made["lines.jsonl"].splitlines()] == [{"name": "elphe"}, {"name": "bite"}]


def test_neither_tests_nor_settings_nor_programs_nor_other_files_are_data(tmp_path: Path) -> None:
    names = ["helper.py", "run.sh", "requirements-dev.txt", "Dockerfile", "docker-compose.yaml", "pytest.ini", ".env"]
    made = altered(tmp_path / "t", dict.fromkeys(names, "one: 1\n") | {"binary.dat": "a\0b 12", "dots.txt": "...\n"})
    assert made == {}
