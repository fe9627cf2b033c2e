"""Runs of a sweep: the order of their trials, what they cost at most, and what a kill leaves of a sweep."""

from collections import Counter
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from observations import config
from proctor.core.run import RunConfig, Trial
from proctor.core.sweep import Sweep, SweepRun
from proctor.results import find_sweep, list_runs, new_sweep
from proctor.results.store import CONFIG_FILE
from proctor.runner.sweep import sweep_cost_bound, uses_paid_model
from proctor.runner.trial import interleave_trials


def trials(tasks: str, count: int = 1) -> list[Trial]:
    return [Trial(task_id=task, number=number) for number in range(1, count + 1) for task in tasks]


def order(turns: list[tuple[int, Trial]]) -> str:
    return " ".join(f"{trial.task_id}{trial.number}{'xyz'[number]}" for number, trial in turns)


def test_all_runs_take_a_task_up_before_the_next_and_none_is_always_first() -> None:
    assert order(interleave_trials([trials("abc")])) == "a1x b1x c1x"
    assert order(interleave_trials([trials("abc")] * 3)) == "a1x a1y a1z b1y b1z b1x c1z c1x c1y"


def test_runs_with_more_trials_do_not_keep_others_waiting() -> None:
    assert order(interleave_trials([trials("ab", 2), trials("ab")])) == "a1x a1y b1y b1x a2x b2x"


def test_finished_trials_are_left_out_of_the_interleaving() -> None:
    assert order(interleave_trials([trials("bc"), trials("abc")])) == "b1x b1y c1y c1x a1y"


@given(st.lists(st.lists(st.tuples(st.sampled_from("abcd"), st.integers(1, 3)), unique=True), max_size=3))
def test_every_trial_has_exactly_one_turn(wanted: list[list[tuple[str, int]]]) -> None:
    runs = [[Trial(task_id=task, number=number) for task, number in some] for some in wanted]
    turns = Counter(interleave_trials(runs))
    assert turns == Counter((number, trial) for number, some in enumerate(runs) for trial in some)


def priced(run_usd: float | None = None, task_usd: float | None = None, model: str | None = "sonnet") -> RunConfig:
    return config(max_cost=run_usd, max_cost_per_task=task_usd, tasks=("a", "b"), trials=2, model=model)


@pytest.mark.parametrize(
    ("configs", "bound"),
    [
        ([priced(), priced()], None),
        ([priced(task_usd=0.5), priced(task_usd=0.5)], 4.0),
        ([priced(run_usd=3, task_usd=0.5), priced(run_usd=3, task_usd=0.5)], 3.0),
        ([priced(run_usd=3), priced(run_usd=3)], 3.0),
        ([priced(task_usd=0.5), priced(task_usd=0.5, model=None)], 2.0),
        ([priced(model=None)], 0.0),
    ],
)
def test_one_budget_bounds_all_runs_together(configs: list[RunConfig], bound: float | None) -> None:
    assert sweep_cost_bound(configs) == bound


def test_only_a_provider_charges() -> None:
    assert uses_paid_model([priced(), priced(model=None)])
    assert not uses_paid_model([priced(model="script:/some/file"), priced(model=None)])


def sweep() -> Sweep:
    return Sweep(
        sweep_id="",
        name="pods",
        benchmark="toy",
        file="[grid]",
        runs=tuple(SweepRun(label=label, config=config(run_id="")) for label in ("one", "other")),
        reference="one",
        rule="better",
        created_at="2026-01-01T00:00:00+00:00",
    )


def test_a_sweep_is_whole_or_not_there_whenever_it_is_killed(tmp_path: Path) -> None:
    store = new_sweep(sweep(), root=tmp_path)
    # Killed here: the sweep is stored, and none of its runs has started yet.
    assert list_runs("toy", root=tmp_path) == []
    assert [path.name for path in sorted((tmp_path / "toy").iterdir())] == ["run-001", "run-002", "sweep-001"]
    found = find_sweep("sweep-001", root=tmp_path)
    assert found is not None
    assert [(label, run.run_id) for label, run in found.runs()] == [("one", "run-001"), ("other", "run-002")]
    assert [run.config().sweep for run in list_runs("toy", root=tmp_path)] == ["toy/sweep-001"] * 2
    # Even where the folder of a run was lost.
    (tmp_path / "toy/run-002" / CONFIG_FILE).unlink()
    (tmp_path / "toy/run-002").rmdir()
    assert [run.config().run_id for _, run in store.runs()] == ["run-001", "run-002"]


def test_sweeps_and_runs_do_not_take_each_others_names(tmp_path: Path) -> None:
    first, second = new_sweep(sweep(), root=tmp_path), new_sweep(sweep(), root=tmp_path)
    assert (first.name, second.name) == ("toy/sweep-001", "toy/sweep-002")
    assert [run.run_id for _, run in second.runs()] == ["run-003", "run-004"]
    new_sweep(msgspec.structs.replace(sweep(), benchmark="other"), root=tmp_path)
    assert find_sweep("run-001", root=tmp_path) is None
    assert find_sweep("toy/sweep-009", root=tmp_path) is None
    with pytest.raises(Exception, match="several sweeps are called 'sweep-001'; say which: other/sweep-001, toy/sweep"):
        find_sweep("sweep-001", root=tmp_path)
