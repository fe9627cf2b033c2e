"""Where the environments of instances come from."""

import json
from pathlib import Path

from proctor.benchmarks.swe.row_loading import evo_rows, with_environments
from proctor.benchmarks.swe.rows import evo_row


def task_repository(folder: Path) -> Path:
    for name in ("acme__blue-1", "acme__blue-2"):
        place = folder / "tasks" / name
        place.mkdir(parents=True)
        (place / "task.yaml").write_text(f"instance_id: {name}\n")
        (place / "environment.yml").write_text(f"name: {name}\n")
    (folder / "tasks" / "acme__blue-1" / "Dockerfile").write_text("FROM x\n")
    return folder


def test_rows_from_elsewhere_get_their_environments_from_the_task_repository(tmp_path: Path) -> None:
    rows = [{"instance_id": "acme__blue-1"}, {"instance_id": "acme__blue-2", "dockerfile": "own"}, {"instance_id": "x"}]
    assert with_environments(rows, task_repository(tmp_path)) == [
        {"instance_id": "acme__blue-1", "environment_yml": "name: acme__blue-1\n", "dockerfile": "FROM x\n"},
        {"instance_id": "acme__blue-2", "environment_yml": "name: acme__blue-2\n", "dockerfile": "own"},
        {"instance_id": "x"},
    ]


def test_releases_get_the_environment_of_the_instance_whose_image_they_use(tmp_path: Path) -> None:
    row = {
        "instance_id": "acme__blue_1.0_2.0",
        "instance_id_swe": "acme__blue-1",
        "repo": "acme/blue",
        "base_commit": "1" * 40,
        "patch": "x",
        "problem_statement": "x",
        "FAIL_TO_PASS": ["t"],
        "image": "donor",
        "start_version": "1.0",
        "end_version": "2.0",
        "test_cmds": "pytest",
    }
    (tmp_path / "output_final").mkdir()
    (tmp_path / "output_final" / "one.json").write_text(json.dumps(row))
    task_repository(tmp_path)
    (read,) = [evo_row(found) for found in evo_rows(tmp_path)]
    assert (read.environment_yml, read.dockerfile) == ("name: acme__blue-1\n", "FROM x\n")
