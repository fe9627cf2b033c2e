import msgspec
import pytest
from toy_benchmark import Toy

from proctor.core.environment import DEFAULT_DISK_MB, DEFAULT_PROCESSES, Limits
from proctor.core.request import RunRequest
from proctor.runner.request import cost_bound, list_trials, make_config, order_tasks, resolve_request

TOY = Toy(4)
CONFIG = make_config(resolve_request(RunRequest(agent="nop")), TOY, TOY.tasks(), versions={"claude": "2.1"})


def test_a_configuration_has_all_that_can_change_results() -> None:
    assert CONFIG.tasks == ("toy-0001", "toy-0002", "toy-0003", "toy-0004")
    assert CONFIG.data_digest == TOY.digest()
    assert CONFIG.versions.keys() == {"proctor", "claude"}
    assert CONFIG.machine.cpus >= 1
    assert CONFIG.grade_concurrency >= 1


def test_the_same_seed_gives_the_same_order_whatever_the_order_was() -> None:
    tasks = list(TOY.tasks())
    assert order_tasks(tasks, None) == tasks
    assert order_tasks(tasks, 7) == order_tasks(tasks[::-1], 7)
    assert sorted(task.id for task in order_tasks(tasks, 7)) == [task.id for task in tasks]
    assert any(order_tasks(tasks, seed) != tasks for seed in range(5))


def test_first_trials_of_all_tasks_come_before_second_ones() -> None:
    config = msgspec.structs.replace(CONFIG, trials=2)
    assert [(trial.task_id[-1], trial.number) for trial in list_trials(config)] == [
        *(("1", 1), ("2", 1), ("3", 1), ("4", 1)),
        *(("1", 2), ("2", 2), ("3", 2), ("4", 2)),
    ]


@pytest.mark.parametrize(
    ("run", "task", "bound"), [(None, None, None), (5.0, None, 5.0), (None, 0.5, 4.0), (3.0, 0.5, 3.0), (9.0, 0.5, 4.0)]
)
def test_a_run_costs_at_most_the_smaller_of_its_limits(
    run: float | None, task: float | None, bound: float | None
) -> None:
    config = msgspec.structs.replace(CONFIG, model="sonnet", trials=2, max_cost=run, max_cost_per_task=task)
    assert cost_bound(config) == bound


def test_a_run_without_a_model_costs_nothing() -> None:
    assert cost_bound(CONFIG) == 0.0


def test_an_agents_limits_are_those_of_the_run_then_the_tasks_then_the_defaults() -> None:
    own = Limits(memory_mb=100, cpus=2.0, wall_seconds=5)
    assert RunRequest().agent_limits(own) == Limits(
        memory_mb=100, processes=DEFAULT_PROCESSES, disk_mb=DEFAULT_DISK_MB, cpus=2.0, wall_seconds=5
    )
    given = RunRequest(memory=3 << 30, processes=7, disk=5 << 20).agent_limits(own)
    assert (given.memory_mb, given.processes, given.disk_mb) == (3072, 7, 5)
