from pathlib import Path

import pytest

import observations
from observations import task_result
from proctor.core.causes import Cause
from proctor.core.errors import UsageError
from proctor.core.result import Tokens
from proctor.core.run import RunConfig
from proctor.results import RecordCache, RunStore, find_run, list_runs, new_run, summarise
from proctor.results.cache import cache_key


def config(run_id: str = "run-001", benchmark: str = "core") -> RunConfig:
    return observations.config(run_id=run_id, benchmark=benchmark, tasks=("a", "b"))


def stored(root: Path, benchmark: str = "core") -> RunStore:
    run = new_run(benchmark, root=root)
    run.write_config(config(run.run_id, benchmark))
    return run


def test_runs_are_numbered_from_one_and_never_reused(tmp_path: Path) -> None:
    assert [stored(tmp_path).run_id for _ in range(3)] == ["run-001", "run-002", "run-003"]
    assert [run.run_id for run in list_runs("core", root=tmp_path)] == ["run-001", "run-002", "run-003"]


def test_results_cannot_be_stored_in_a_file(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    for root in (tmp_path / "file", tmp_path / "file/below"):
        with pytest.raises(UsageError, match=r"file/.*core: results cannot be stored here: it is a file"):
            new_run("core", root=root)
    assert (tmp_path / "file").read_text() == "mine"


def test_a_folder_without_a_configuration_is_not_a_run(tmp_path: Path) -> None:
    new_run("core", root=tmp_path)
    assert list_runs("core", root=tmp_path) == []
    assert stored(tmp_path).run_id == "run-002"


def test_a_result_comes_back_whatever_its_task_is_called(tmp_path: Path) -> None:
    run = stored(tmp_path)
    ids = ["plain", "a/b|c d", "..", "x" * 400]
    for task_id in ids:
        run.write_result(task_result(task_id))
        run.write_result(task_result(task_id, trial=2))
        assert run.result_file(task_id, 2).is_file()
        assert run.result(task_id, 2).trial == 2
    assert sorted(found.task_id for found in run.results()) == sorted(ids * 2)


def test_a_number_at_the_end_of_a_task_id_is_not_a_trial(tmp_path: Path) -> None:
    run = stored(tmp_path)
    trials = [("a", 1), ("a", 2), ("a.2", 1), ("a.2", 2), ("a.2.2", 1), ("a.b", 2), (".2", 1), ("x" * 179 + ".2", 1)]
    for task_id, trial in trials:
        run.write_result(task_result(task_id, trial=trial))
    assert sorted((found.task_id, found.trial) for found in run.results()) == sorted(trials)
    assert run.result_file("a", 2).relative_to(run.folder).as_posix() == "trials/a.2.json"
    assert run.logs("a", 2, 1).relative_to(run.folder).as_posix() == "logs/a.2/attempt-1"
    assert run.result_file("a.2", 1).relative_to(run.folder).as_posix() == "trials/a%2e2.json"


def test_a_run_of_version_1_keeps_its_names_from_its_first_trial_on(tmp_path: Path) -> None:
    run = stored(tmp_path)
    file = run.folder / "config.json"
    file.write_text(file.read_text().replace("run_config@3", "run_config@1").replace('"trials"', '"samples"'))
    begun = RunStore(run.folder)
    assert begun.logs("a", 2).name == "a~2"
    begun.write_config(begun.config())
    assert RunStore(run.folder).result_file("a", 2) == run.folder / "tasks/a~2.json"


def test_a_result_that_is_not_there_is_one_sentence(tmp_path: Path) -> None:
    run = stored(tmp_path)
    with pytest.raises(UsageError, match="run run-001 has no result of task 'a', trial 2; `proctor bench show core/"):
        run.result("a", 2)


def test_a_summary_is_made_again_from_the_results(tmp_path: Path) -> None:
    run = stored(tmp_path)
    run.write_result(task_result("a"))
    run.write_result(task_result("b", Cause.TESTS_FAILED, cost=0.25))
    summary = summarise(run.config(), run.results())
    assert (summary.tasks, summary.resolved, summary.unresolved, summary.errors) == (2, 1, 1, 0)
    assert (summary.cost_usd, summary.tokens, summary.agent_seconds) == (0.75, 20, 4.0)
    assert summary.causes == {"solved": 1, "tests_failed": 1}


def test_an_unknown_price_makes_the_sum_unknown_not_smaller(tmp_path: Path) -> None:
    run = stored(tmp_path)
    run.write_result(task_result("a"))
    run.write_result(task_result("b", cost=None))
    assert summarise(run.config(), run.results()).cost_usd is None


def test_a_run_is_found_by_folder_by_full_name_and_by_an_id_that_is_unique(tmp_path: Path) -> None:
    run = stored(tmp_path)
    for name in (str(run.folder), "core/run-001", "run-001"):
        assert find_run(name, root=tmp_path).folder == run.folder


@pytest.mark.parametrize("name", ["run-009", "*", "../core/run-001x", "", ".."])
def test_a_run_that_is_not_there_is_one_sentence(tmp_path: Path, name: str) -> None:
    stored(tmp_path)
    with pytest.raises(UsageError, match="there is no run"):
        find_run(name, root=tmp_path)


def test_an_id_that_two_benchmarks_have_is_asked_back(tmp_path: Path) -> None:
    stored(tmp_path)
    stored(tmp_path, "other")
    with pytest.raises(UsageError, match="say which: core/run-001, other/run-001"):
        find_run("run-001", root=tmp_path)


def test_a_cache_forgets_what_it_cannot_read(tmp_path: Path) -> None:
    cache = RecordCache(Tokens, "tokens", root=tmp_path)
    key = cache_key("a", "b")
    assert cache.get(key) is None
    cache.put(key, Tokens(input=3))
    assert cache.get(key) == Tokens(input=3)
    next(tmp_path.rglob("*.json")).write_bytes(b"{")
    assert cache.get(key) is None


def test_cache_keys_differ_for_different_lists_of_parts() -> None:
    assert cache_key("ab", "c") != cache_key("a", "bc")
