from hypothesis import given
from hypothesis import strategies as st

from proctor.core.causes import Cause
from proctor.core.run import JournalEntry, Stage, Trial
from proctor.runner.resume import TrialState, read_trial_states

STAGES: list[Stage] = ["prepared", "answered", "collected", "graded", "recorded"]
TRIAL = Trial(task_id="t", number=1)


def entry(attempt: int, stage: Stage, cause: Cause | None = None, *, at: str = "then", trial: int = 1) -> JournalEntry:
    return JournalEntry(at=at, task_id="t", trial=trial, attempt=attempt, stage=stage, cause=cause)


def test_a_trial_stands_at_the_last_stage_of_its_last_attempt() -> None:
    found = read_trial_states(
        [
            entry(1, "prepared", at="one"),
            entry(1, "answered", Cause.PROVIDER_ERROR),
            entry(2, "prepared", at="two"),
            entry(2, "collected", Cause.AGENT_TIMEOUT),
        ]
    )[TRIAL]
    assert (found.attempts, found.stage, found.attempt_cause) == (2, "collected", Cause.AGENT_TIMEOUT)
    assert found.attempt_start_times == ("one", "two")
    assert (found.collected, found.gradable, found.recorded) == (True, True, False)


def test_an_attempt_that_ended_and_must_be_repeated_does_not_count() -> None:
    found = read_trial_states([entry(1, "prepared"), entry(1, "answered", Cause.RUN_BUDGET)])[TRIAL]
    assert (found.collected, found.recorded, found.failed) == (False, False, False)


def test_a_recorded_error_is_done_and_failed_and_a_recorded_failure_of_the_agent_is_done() -> None:
    def recorded(cause: Cause, ended: Cause | None) -> TrialState:
        return read_trial_states([entry(1, "prepared"), entry(1, "collected", ended), entry(1, "recorded", cause)])[
            TRIAL
        ]

    assert recorded(Cause.PROVIDER_ERROR, Cause.PROVIDER_ERROR).failed
    assert not recorded(Cause.PROVIDER_ERROR, Cause.PROVIDER_ERROR).gradable
    assert recorded(Cause.GRADER_FAILED, None).gradable
    for cause in (Cause.TESTS_FAILED, Cause.SOLVED, Cause.EMPTY, Cause.AGENT_TIMEOUT):
        assert recorded(cause, None).recorded
        assert not recorded(cause, None).failed


def test_trials_of_a_task_have_separate_states() -> None:
    found = read_trial_states([entry(1, "recorded", Cause.SOLVED), entry(1, "prepared", trial=2)])
    assert found[TRIAL].recorded
    assert not found[Trial(task_id="t", number=2)].recorded


@given(st.lists(st.tuples(st.integers(1, 4), st.sampled_from(STAGES)), max_size=30))
def test_no_order_of_lines_breaks_it_or_takes_a_stage_back(entries: list[tuple[int, Stage]]) -> None:
    best: tuple[int, int] | None = None
    for count in range(len(entries) + 1):
        known = read_trial_states(entry(attempt, stage) for attempt, stage in entries[:count])
        if TRIAL in known and (stage := known[TRIAL].stage) is not None:
            now = (known[TRIAL].attempts, STAGES.index(stage))
            assert best is None or now >= best
            best = now
    if entries:
        assert best is not None
        assert best[0] == max(attempt for attempt, _ in entries)
