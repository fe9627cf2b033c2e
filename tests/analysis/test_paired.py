import numpy as np
import pytest

from observations import flipped, make_observation, make_observations
from proctor.analysis import adjust_p_values, compare
from proctor.analysis.observation import ObservedFinding, ObservedVerdict
from proctor.analysis.paired import counted_by_task, paired_test
from proctor.analysis.significance import PairedSpread, tasks_needed
from proctor.core.causes import Cause, Status


def test_only_tasks_that_both_have_graded_are_compared() -> None:
    paired = compare(make_observations(a="+", b="-", c="e", d="+"), make_observations(a="-", b="+", c="+", e="+"))
    assert (paired.common, paired.both, paired.neither) == (2, 0, 0)
    assert (paired.gained, paired.lost) == (("b",), ("a",))


def test_of_several_trials_most_decide_and_a_tie_does_not() -> None:
    paired = compare(make_observations(a="++-", b="+-", c="e+"), make_observations(a="--+", b="++", c="-"))
    assert (paired.gained, paired.lost) == (("b",), ("a", "c"))


def test_the_difference_in_rate_counts_every_trial() -> None:
    change = compare(make_observations(a="++-+", b="--"), make_observations(a="--+-", b="+-")).rate
    assert change is not None
    assert (change.first, change.second) == (0.375, 0.375)
    assert change.difference.value == 0


def test_costs_and_times_are_means_over_common_tasks_of_means_over_a_tasks_trials() -> None:
    first = [
        make_observation("a", cost=1.0, seconds=10),
        make_observation("a", cost=3.0, seconds=30, trial=2),
        make_observation("b", cost=4.0, seconds=2),
    ]
    second = [
        make_observation("a", cost=1.0, seconds=40),
        make_observation("b", cost=2.0, seconds=4),
        make_observation("c", cost=99.0, seconds=999),
    ]
    paired = compare(first, second)
    assert paired.cost is not None
    assert paired.seconds is not None
    assert (paired.cost.first, paired.cost.second, paired.cost.ratio) == (3.0, 1.5, 0.5)
    assert (paired.seconds.first, paired.seconds.second) == (11.0, 22.0)


def test_an_unknown_cost_is_not_guessed() -> None:
    assert compare(make_observations(a="+"), [make_observation("a", cost=None)]).cost is None


def test_errors_and_findings_are_counted_for_each_run() -> None:
    found = ObservedVerdict(status=Status.RESOLVED, cause=Cause.SOLVED, findings=(ObservedFinding(code="x"),))
    paired = compare(
        make_observations(a="+", b="e"), [make_observation("a", verdict=found), make_observation("b", "-")]
    )
    assert (paired.first.errors, paired.second.errors) == (1, 0)
    assert (paired.first.findings, paired.second.findings) == (0, 1)


@pytest.mark.parametrize(
    ("gained", "lost", "says"),
    [
        (0, 0, "No difference between old and new"),
        (9, 0, "new is better than old"),
        (0, 9, "new is worse than old"),
        (3, 2, "No difference"),
    ],
)
def test_the_sentence_says_no_more_than_the_data(gained: int, lost: int, says: str) -> None:
    assert compare(*flipped(gained, lost, 1), names=("old", "new")).sentence.startswith(says)


def test_a_difference_that_is_not_shown_has_the_number_of_tasks_it_needs() -> None:
    sentence = compare(*flipped(12, 6, 82)).sentence
    assert sentence.endswith("p = 0.238, McNemar's exact test). One this large takes about 391 tasks.")


def test_runs_without_a_common_task_have_no_comparison() -> None:
    paired = compare([], make_observations(a="+"))
    assert paired.sentence == "the first run and the second run have no graded task in common."
    assert (paired.rate, paired.cost, paired.seconds, paired.tasks_needed) == (None, None, None, None)


EIGHT_TASKS_FOUR_TIMES = (
    make_observations(a="+---", b="----", c="----", d="+---", e="++--", f="++--", g="+---", h="+---"),
    make_observations(a="+++-", b="++--", c="++--", d="+++-", e="+++-", f="+++-", g="++--", h="+---"),
)


def test_repeated_trials_show_what_a_majority_of_each_tasks_trials_does_not() -> None:
    """19 of 32 against 8 of 32, and never worse; only four tasks change their majority, which would be p = 0.125."""
    paired = compare(*EIGHT_TASKS_FOUR_TIMES, names=("old", "new"))
    assert (paired.method, paired.p_value, paired.conclusion) == ("permutation", 2 / 2**7, 1)
    assert (len(paired.gained), len(paired.lost)) == (4, 0)
    assert paired.sentence == (
        "new is better than old (a mean rate of 59.4% against 25.0% on 8 common tasks; p = 0.016, "
        "paired permutation test on per-task rates)."
    )
    turned = compare(*reversed(EIGHT_TASKS_FOUR_TIMES), names=("new", "old"))
    assert (turned.p_value, turned.conclusion) == (2 / 2**7, -1)
    assert turned.sentence.startswith("old is worse than new (a mean rate of 25.0% against 59.4%")


def test_which_run_is_better_is_said_by_the_rates_and_not_by_the_flips() -> None:
    """Nine tasks fall from 5 of 5 to 3 of 5, which flips none; two rise from 2 of 5 to 3 of 5, which flips both."""
    falling, rising = [f"f{n}" for n in range(9)], ["r0", "r1"]
    paired = compare(
        make_observations(**dict.fromkeys(falling, "+++++"), **dict.fromkeys(rising, "++---")),
        make_observations(**dict.fromkeys(falling, "+++--"), **dict.fromkeys(rising, "+++--")),
    )
    assert (len(paired.gained), len(paired.lost)) == (2, 0)
    assert paired.conclusion == -1
    assert paired.sentence.startswith("the second run is worse")


def test_one_trial_of_each_task_is_tested_by_mcnemar_and_more_by_permutation() -> None:
    assert compare(*flipped(3, 2, 4)).method == "mcnemar"
    assert compare(make_observations(a="+e", b="-"), make_observations(a="+", b="se-")).method == "mcnemar"
    assert compare(make_observations(a="+", b="-"), make_observations(a="+", b="--")).method == "permutation"
    # What is not common does not decide how the rest is tested.
    assert compare(make_observations(a="+", c="++"), make_observations(a="+", d="++")).method == "mcnemar"


@pytest.mark.parametrize(("before", "after"), [("++-", "++-"), ("----", "++++"), ("+", "-----")])
def test_one_task_shows_no_difference_however_often_it_was_tried(before: str, after: str) -> None:
    paired = compare(make_observations(a=before), make_observations(a=after))
    assert (paired.p_value, paired.conclusion) == (1.0, 0)
    assert "on 1 common task; p = 1.000" in paired.sentence


def test_rates_that_cancel_out_need_no_number_of_tasks() -> None:
    """Thirds and sixths do not add up to zero in binary, and 10^30 tasks would be asked for."""
    paired = compare(make_observations(a="+--", b="+--", c="++----"), make_observations(a="---", b="++-", c="++----"))
    assert (paired.tasks_needed, paired.p_value) == (None, 1.0)


def test_more_trials_need_fewer_tasks() -> None:
    draw = np.random.default_rng(12)
    better = np.clip(draw.beta(0.6, 0.9, 400) + 0.08, 0, 1)

    def needed(trials: int) -> int | None:
        marks = draw.random((2, 400, trials)) < np.stack([better - 0.08, better])[:, :, None]
        first, second = (
            counted_by_task(
                make_observations(**{f"t{n}": "".join("-+"[one] for one in row) for n, row in enumerate(run)})
            )
            for run in marks.astype(int).tolist()
        )
        return tasks_needed(paired_test(first, second).spread)

    one, eight = needed(1), needed(8)
    assert one is not None
    assert eight is not None
    assert eight < one / 2


def test_a_difference_may_vanish_after_the_holm_correction() -> None:
    alone = compare(*flipped(6, 0, 40))
    assert alone.conclusion == 1
    many = adjust_p_values([alone, *(compare(*flipped(2, 2, 40)) for _ in range(4))])
    assert many[0].conclusion == 0
    assert many[0].adjusted_p == pytest.approx(5 * alone.p_value)
    assert many[0].sentence.startswith("the second run would be better than the first run, but among so many runs")
    assert "0.156 after correction" in many[0].sentence
    # Six flips of six are too few among five comparisons, so it takes more tasks to show as much.
    assert (alone.tasks_needed, many[0].tasks_needed) == (
        tasks_needed(PairedSpread.of([1.0] * 6 + [0.0] * 40)),
        tasks_needed(PairedSpread.of([1.0] * 6 + [0.0] * 40), significance=0.01),
    )
    assert alone.tasks_needed != many[0].tasks_needed
    assert many[1].minimum_detectable_difference is None
    assert adjust_p_values([alone]) == (alone,)


def test_one_task_is_one_task() -> None:
    assert "of 1 common task; " in compare(make_observations(a="+"), make_observations(a="+")).sentence


def test_two_runs_of_the_same_agent_are_called_different_at_most_one_time_in_twenty() -> None:
    """2,000 simulated benchmarks of tasks of all difficulties with one trial of each, and 1,000 with three."""
    draw = np.random.default_rng(8)
    written = {
        (n, s, right): make_observation(f"t{n}", "-+"[right], trial=s)
        for n in range(60)
        for s in range(3)
        for right in (0, 1)
    }
    wrong, rounds = {1: 0, 3: 0}, {1: 2000, 3: 1000}
    for trials in wrong:
        for _ in range(rounds[trials]):
            chances = draw.beta(0.6, 0.9, 60)
            marks = draw.random((2, 60, trials)) < chances[:, None]
            first, second = (
                [written[n, s, right] for n, row in enumerate(run) for s, right in enumerate(row)]
                for run in marks.tolist()
            )
            wrong[trials] += compare(first, second, resamples=1).conclusion != 0
    assert all(count <= rounds[trials] / 20 for trials, count in wrong.items()), wrong
    assert sum(wrong.values()) > 30  # not by never saying anything


def test_an_agent_that_is_better_is_found_as_often_as_was_planned() -> None:
    draw = np.random.default_rng(9)
    needed = compare(*flipped(15, 5, 80)).tasks_needed
    assert needed == 155
    flips = draw.multinomial(needed, [0.15, 0.05, 0.80], 2000)
    shown = [compare(*flipped(gained, lost), resamples=1).conclusion == 1 for gained, lost, _ in flips[:200]]
    assert 0.7 < np.mean(shown) < 0.9
