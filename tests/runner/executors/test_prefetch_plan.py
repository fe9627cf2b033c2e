"""Which node fetches the images of which tasks ahead of time."""

from proctor.runner.executors.prefetch_plan import PrefetchPlan


def test_nodes_claim_the_tasks_to_come_in_turn() -> None:
    plan = PrefetchPlan()
    plan.start("abcdef", ["one", "two"], 2)
    assert plan.claim("one", 2) == ["a", "c"]
    assert plan.claim("two", 2) == ["b", "d"]


def test_a_task_whose_trials_are_all_given_out_makes_place_for_the_next_one() -> None:
    plan = PrefetchPlan()
    plan.start("aabcd", ["one", "two"], 1)
    plan.given_out("a")
    assert plan.claim("one", 1) == ["a"]
    plan.given_out("a")
    assert plan.claim("one", 1) == ["c"]
    assert plan.claim("two", 3) == ["b", "d"]


def test_what_a_node_that_left_has_claimed_is_claimed_by_others() -> None:
    plan = PrefetchPlan()
    plan.start("ab", ["one", "two"], 1)
    plan.forget("one")
    assert plan.claim("two", 2) == ["b", "a"]
