"""How long to wait before a retry, and what is retried at all."""

import pytest

from proctor.core.causes import Cause
from proctor.runner.retry import (
    DEFAULT_RETRY_SECONDS,
    MAX_FREE_RETRIES,
    another_attempt,
    counted_failures,
    is_retried,
    retry_delay,
    stops_run,
)


@pytest.mark.parametrize(("failures", "least", "most"), [(1, 2, 3), (2, 4, 6), (4, 16, 24), (9, 120, 180)])
def test_waits_double_up_to_a_limit_with_up_to_half_more_by_chance(failures: int, least: float, most: float) -> None:
    assert retry_delay(failures, DEFAULT_RETRY_SECONDS, 0.0) == least
    assert retry_delay(failures, DEFAULT_RETRY_SECONDS, 1.0) == most


def test_infrastructure_errors_are_retried_up_to_the_limit() -> None:
    assert [is_retried(Cause.PROVIDER_ERROR, failures, 2) for failures in (1, 2, 3)] == [True, True, False]
    assert not is_retried(Cause.AGENT_CRASHED, 1, 2)
    assert not is_retried(None, 1, 2)
    assert not is_retried(Cause.NODE_LOST, 1, 2), "it costs no retry: who gives out nodes counts how many were lost"


def test_only_what_no_later_task_can_escape_stops_a_run() -> None:
    assert stops_run(Cause.DISK_FULL)
    assert not stops_run(Cause.PROVIDER_ERROR)
    assert not stops_run(None)


def test_a_lost_node_uses_up_no_retry_and_is_not_lost_for_ever() -> None:
    lost = [Cause.NODE_LOST] * MAX_FREE_RETRIES
    assert another_attempt(lost[:1], retries=0)
    assert another_attempt(lost, retries=0)
    assert not another_attempt([*lost, Cause.NODE_LOST], retries=0)
    assert counted_failures(lost) == 0
    assert not another_attempt([*lost, Cause.PROVIDER_ERROR], retries=0)
    assert another_attempt([*lost, Cause.PROVIDER_ERROR], retries=1)
