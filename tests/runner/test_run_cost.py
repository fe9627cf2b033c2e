from pathlib import Path

import pytest
from toy_benchmark import Toy

from proctor.core.result import sum_costs
from proctor.core.run import JournalEntry, Stage
from proctor.results import RunStore, read_journal
from proctor.runner.run_cost import attempt_costs, known_cost, recording_usage, unfinished_costs
from sessions import Toys
from toy_provider import ANSWER_USD, toy_provider


def entry(task: str, attempt: int, stage: Stage, cost: float | None = None) -> JournalEntry:
    return JournalEntry(at="", task_id=task, trial=1, attempt=attempt, stage=stage, cost_usd=cost)


def unfinished(run: Path, journal: list[JournalEntry]) -> float | None:
    return sum_costs(one.cost_usd for one in unfinished_costs(RunStore(run), journal))


def test_every_attempt_counts_once_and_what_is_not_recorded_yet_is_known_apart(tmp_path: Path) -> None:
    journal = [
        *(entry("a", 1, "prepared"), entry("a", 1, "answered", 0.5), entry("a", 2, "prepared")),
        *(entry("a", 2, "collected", 0.25), entry("a", 2, "recorded")),
        *(entry("b", 1, "prepared"), entry("b", 1, "answered", 0.125), entry("b", 2, "prepared")),
        entry("c", 1, "prepared"),
    ]
    assert known_cost(attempt_costs(RunStore(tmp_path), journal)) == 0.875
    assert unfinished(tmp_path, journal) == 0.125


def test_a_cost_that_is_not_known_makes_the_unfinished_part_unknown(tmp_path: Path) -> None:
    journal = [entry("a", 1, "prepared"), entry("a", 1, "answered", None)]
    assert known_cost(attempt_costs(RunStore(tmp_path), journal)) == 0.0
    assert unfinished(tmp_path, journal) is None


def test_a_trial_that_is_tried_again_after_its_result_is_unfinished_again(tmp_path: Path) -> None:
    journal = [
        *(entry("a", 1, "prepared"), entry("a", 1, "collected", 0.5), entry("a", 1, "recorded")),
        *(entry("a", 2, "prepared"), entry("a", 2, "answered", 0.25)),
    ]
    assert unfinished(tmp_path, journal) == 0.75


async def test_an_attempt_that_was_cut_short_is_priced_from_its_recording(toys: Toys) -> None:
    toys.benchmark = Toy(1)
    async with toy_provider() as provider:
        await toys.run(provider)
    begun = [line for line in read_journal(toys.store.journal) if line.stage == "prepared"]
    assert unfinished(toys.store.folder, begun) == pytest.approx(3 * ANSWER_USD)
    recording = toys.store.logs("toy-0001", 1, 1) / "cassette.jsonl"
    (usage,) = recording_usage(recording)
    assert (usage.requests, usage.tokens.total) == (3, 3300)
    recording.write_bytes(b"")
    assert recording_usage(recording) == ()
    assert unfinished(toys.store.folder, begun) == 0
