"""The tasks as they are published, and what is known of each."""

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from paths import SAMPLES, sample_data, shared_data
from proctor.benchmarks import benchmark, published_rows
from proctor.benchmarks.setupbench import SOURCE, SetupBench, SetupBenchTask, read_tasks
from proctor.benchmarks.setupbench.benchmark import as_task, grade_seconds
from proctor.benchmarks.setupbench.quirks import QUIRKS, GraderBug, Requirements, hosts, requirements_of
from proctor.benchmarks.setupbench.rows import FAMILY_NAMES, FILES
from proctor.core.errors import InfrastructureError, InvalidData, UsageError
from proctor.core.record import to_json
from setup_world import SET_UPS, make_benchmark, make_copy, setupbench

__all__ = ["setupbench"]


@pytest.fixture(scope="module", params=SAMPLES)
def published(request: pytest.FixtureRequest) -> tuple[SetupBenchTask, ...]:
    return read_tasks(request.param("setupbench"))


NODE = "codeexecservice.azurecr.io/setupbench-node-16:latest"


def test_every_task_of_our_sample_loads_with_its_rule_its_image_and_its_needs() -> None:
    tasks = read_tasks(sample_data("setupbench"))
    families = Counter(FAMILY_NAMES[task.row.task_type] for task in tasks)
    assert families == {"background": 6, "database": 11, "dependency": 3, "repository": 7}
    assert Counter(task.rule for task in tasks) == {"marker": 24, "exit_code": 3}
    assert Counter(task.row.base_image for task in tasks) == {"ubuntu:22.04": 24, NODE: 2, "ruby:2.7": 1}
    assert Counter(task.tier for task in tasks) == {None: 16, "1": 4, "2": 4, "3": 3}
    assert [task.id for task in tasks] == sorted(task.id for task in tasks)
    assert Counter(requirements_of(task) for task in tasks) == {
        Requirements.PACKAGES: 14,
        Requirements.UNPASSABLE: 2,
        Requirements.OTHER_HOSTS: 6,
        Requirements.PRIVATE_IMAGE: 2,
        Requirements.CHECKOUT: 2,
        Requirements.CHECKOUT_NODE: 1,
    }
    told = {task.id: hosts(task) for task in tasks}
    assert told["dbsetup-redis-1"] == "the distribution's packages"
    assert told["deps-devise-31774"] == "the distribution's packages, GitHub for the checkout, rubygems.org"
    assert told["cassandra-73cd2c5"] == "the distribution's packages, GitHub for the checkout, Maven Central"


@pytest.mark.parametrize("data", [pytest.param(shared_data, id="real-sample")])
def test_all_93_tasks_load_with_their_rule_and_their_image(data: Callable[..., Path]) -> None:
    published = read_tasks(data("setupbench"))
    assert Counter(FAMILY_NAMES[task.row.task_type] for task in published) == {
        "background": 8,
        "database": 15,
        "dependency": 16,
        "repository": 54,
    }
    assert Counter(task.rule for task in published) == {"marker": 77, "exit_code": 16}
    assert Counter(task.row.base_image for task in published) == {
        "ubuntu:22.04": 77,
        NODE: 9,
        "ruby:2.7": 7,
    }
    assert Counter(task.tier for task in published) == {None: 78, "1": 5, "2": 5, "3": 5}
    assert [task.id for task in published] == sorted(task.id for task in published)


@pytest.mark.parametrize("data", [pytest.param(shared_data, id="real-sample")])
def test_requirements_are_counted_by_family(data: Callable[..., Path]) -> None:
    published = read_tasks(data("setupbench"))
    needs = Counter((FAMILY_NAMES[task.row.task_type], requirements_of(task)) for task in published)
    assert needs == {
        ("background", Requirements.PACKAGES): 7,
        ("background", Requirements.UNPASSABLE): 1,
        ("database", Requirements.PACKAGES): 11,
        ("database", Requirements.UNPASSABLE): 1,
        ("database", Requirements.OTHER_HOSTS): 3,
        ("dependency", Requirements.PRIVATE_IMAGE): 9,
        ("dependency", Requirements.OTHER_HOSTS): 7,
        ("repository", Requirements.CHECKOUT): 28,
        ("repository", Requirements.CHECKOUT_NODE): 11,
        ("repository", Requirements.OTHER_HOSTS): 15,
    }
    assert {task.id for task in published if "GitHub for the checkout" in hosts(task)} == {
        task.id for task in published if task.row.repo_url
    }


def test_notes_on_graders_are_on_tasks_that_exist(published: tuple[SetupBenchTask, ...]) -> None:
    assert QUIRKS.keys() <= {task.id for task in published}
    assert {task for task, quirk in QUIRKS.items() if quirk.bug is GraderBug.UNPASSABLE} == {
        "bgsetup-autossh-logging",
        "dbsetup-mysql-3",
    }
    assert {task for task, quirk in QUIRKS.items() if quirk.replaces_official} == {
        "bgsetup-autossh-logging",
        "dbsetup-mysql-3",
    }
    for quirk in QUIRKS.values():
        assert quirk.strict_command is None or "Setup successful" in quirk.strict_command


def test_the_agent_is_told_the_statement_and_nothing_else(published: tuple[SetupBenchTask, ...]) -> None:
    for row in published:
        task = as_task(row)
        assert task.public.instruction == row.row.problem_statement
        told = to_json(task.public).decode()
        assert "Setup successful" not in told
        for hidden in row.row.build_commands:
            assert json.dumps(hidden) not in told


def test_graders_have_the_time_that_they_need(published: tuple[SetupBenchTask, ...]) -> None:
    seconds = {task.id: grade_seconds(task) for task in published}
    assert seconds["bgsetup-multiprocess-master-worker"] == 300
    assert seconds["cassandra-73cd2c5"] == seconds["deps-devise-31774"] == 1800


def test_rows_that_cannot_be_used_are_named_with_their_place(tmp_path: Path) -> None:
    with pytest.raises(InvalidData, match="not a copy of SetupBench"):
        read_tasks(tmp_path)
    copy = make_copy(tmp_path / "copy") / "setupbench" / "scenarios"
    file = copy / FILES[0]
    whole = file.read_text()
    lines = whole.splitlines()
    file.write_text("\n".join([*lines, lines[0]]))
    with pytest.raises(InvalidData, match="comes twice") as twice:
        read_tasks(tmp_path / "copy")
    assert f"{FILES[0]}:{len(lines) + 1}" in str(twice.value)
    file.write_text(whole.replace('"task_type": "bgsetup"', '"task_type": "else"', 1))
    with pytest.raises(InvalidData, match="not a task of SetupBench"):
        read_tasks(tmp_path / "copy")
    (copy / FILES[3]).unlink()
    with pytest.raises(InvalidData, match=r"repo_setup\.jsonl is missing"):
        read_tasks(tmp_path / "copy")


@pytest.mark.parametrize(
    ("data", "count", "missing"),
    [pytest.param(sample_data, 27, 15, id="our-sample"), pytest.param(shared_data, 93, 21, id="real-sample")],
)
async def test_it_is_fetched_from_a_copy_and_opened(
    data: Callable[..., Path], count: int, missing: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    origin = data("setupbench")
    monkeypatch.setenv("PROCTOR_CACHE", str(tmp_path / "cache"))
    with pytest.raises(UsageError, match="bench fetch setupbench"):
        SOURCE.open("all")
    said: list[str] = []
    bare = await SOURCE.fetch("all", origin, said.append)
    assert (bare.tasks, bare.origin) == (count, str(origin))
    assert said[0].startswith(f"{missing} of {count} tasks cannot be run")
    whole = await SOURCE.fetch("all", make_copy(tmp_path / "copy", origin), said.append)
    assert whole.digest != bare.digest
    opened = benchmark("setupbench")
    assert (len(opened.tasks()), opened.digest()) == (count, whole.digest)


async def test_a_task_without_its_files_says_so_before_anything_is_spent(
    setupbench: SetupBench, tmp_path: Path
) -> None:
    tasks = {task.id: task for task in setupbench.tasks()}
    with pytest.raises(InfrastructureError, match="fixtures/bgsetup-celery-systemd"):
        await setupbench.prepare(tasks["bgsetup-celery-systemd"], tmp_path / "celery")
    spec = await setupbench.prepare(tasks["dbsetup-redis-2"], tmp_path / "redis")
    assert (spec.workdir, spec.image) == ("/testbed", "ubuntu:22.04")
    assert spec.workspace is not None
    laid_out = {file.relative_to(spec.workspace).as_posix() for file in spec.workspace.rglob("*.lua")}
    assert laid_out == SET_UPS["dbsetup-redis-2"].files.keys()
    tunnel = await setupbench.prepare(tasks["bgsetup-autossh-logging"], tmp_path / "tunnel")
    assert tunnel.workspace is not None
    assert list(tunnel.workspace.iterdir()) == []


def test_a_change_of_a_task_s_files_changes_its_fingerprint(tmp_path: Path) -> None:
    one = make_benchmark(tmp_path / "one")
    task = next(task for task in one.tasks() if task.id == "dbsetup-redis-3")
    before = one.fingerprint(task)
    script = tmp_path / "one" / "setupbench" / "fixtures" / "prerunner-dbsetup-redis-3" / "prerunner.sh"
    script.write_text(script.read_text() + "# more\n")
    assert one.fingerprint(task) != before


def test_the_paper_s_table_is_published_beside_our_results() -> None:
    rows = {row.model: row for row in published_rows("setupbench")}
    assert [round((row.rate or 0) * 100, 1) for row in rows.values()] == [34.4, 50.5, 53.8, 57.0, 62.4]
    best = rows["Claude 4 Sonnet"].details or {}
    assert best["steps.dependency"] == 74.3
    assert best["rate.background"] == 0.75
    assert best["tokens"] == 1_129_000
    assert round((rows["Claude 3.7 Sonnet"].details or {})["rate.database"], 3) == 0.533
