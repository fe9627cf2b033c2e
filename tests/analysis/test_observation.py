import random
from pathlib import Path

import msgspec
import pytest

from observations import config, make_observation
from proctor.analysis import Observation, run_row, to_observation
from proctor.core.causes import CONSEQUENCES, Cause, Status
from proctor.core.record import to_json
from proctor.core.request import Mode
from proctor.core.result import ModelUsage, Tokens
from random_runs import random_result, store_run


def test_a_results_file_reads_as_the_observation_of_the_result() -> None:
    draw = random.Random(1)
    for number in range(20):
        result = random_result(config(mode=Mode.H2), f"task-{number}", 1, draw)
        assert msgspec.json.decode(to_json(result), type=Observation) == to_observation(result)


def test_a_run_is_the_same_in_numbers_whichever_way_it_is_read(tmp_path: Path) -> None:
    store = store_run(tmp_path, "run-001", tasks=20, seed=3)
    assert run_row(store.config(), store.results()) == run_row(store.config(), store.results_as(Observation))


def test_a_file_that_is_no_result_is_named(tmp_path: Path) -> None:
    store = store_run(tmp_path, "run-001", tasks=2)
    for broken in (b"{", b'{"task_id": 7}', b"[" * 100_000, b""):
        store.result_file("task-1", 1).write_bytes(broken)
        store.unreadable.clear()
        assert [one.task_id for one in store.results_as(Observation)] == ["task-0"]
        assert list(store.unreadable) == [str(store.result_file("task-1", 1))]


@pytest.mark.parametrize("cause", list(Cause))
def test_the_table_of_causes_decides_what_counts(cause: Cause) -> None:
    status = CONSEQUENCES[cause].status or Status.UNRESOLVED
    assert make_observation("a", cause=cause, status=status).counted is CONSEQUENCES[cause].counted


def test_a_cost_is_unknown_as_soon_as_one_price_is() -> None:
    known = ModelUsage(model="a", requests=1, tokens=Tokens(input=5, cache_read=7), cost_usd=0.25)
    unknown = ModelUsage(model="b", requests=1, tokens=Tokens(output=1), cost_usd=None)
    assert make_observation("a", usage=(known, known)).cost_usd == 0.5
    assert make_observation("a", usage=(known, unknown)).cost_usd is None
    assert make_observation("a", usage=(known, unknown)).tokens == 13
    assert make_observation("a", usage=()).cost_usd == 0.0
