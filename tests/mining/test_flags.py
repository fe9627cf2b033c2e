"""What makes a task doubtful."""

from typing import Any

from proctor.mining import flags
from proctor.mining.instruction import DiffWords, names_in

LONG = "Adding two numbers gives their difference instead of the sum, whatever the numbers are."


def words(*lines: str) -> DiffWords:
    return DiffWords(lines=frozenset(lines), names=frozenset(name for line in lines for name in names_in(line)))


NOTHING = words()
RETURN = words("return total")


def found(instruction: str = LONG, oracle: DiffWords = RETURN, tests: DiffWords = NOTHING, **more: Any) -> set[str]:
    given = {"new_names": (), "lines": 5, "files": 1, "only_loading": False, "by_model": False, **more}
    return set(flags.find_flags(instruction, oracle, tests, **given))


def test_a_task_that_says_what_it_tests_has_no_flags() -> None:
    assert found() == set()


def test_a_short_instruction_is_flagged() -> None:
    assert found("Fix sums") == {flags.SHORT_INSTRUCTION}


def test_a_new_name_that_the_tests_use_must_be_in_the_instruction() -> None:
    oracle, tests = words("def double(a):"), words("assertEqual(double(4), 8)")
    assert found(oracle=oracle, tests=tests, new_names={"double"}) == {flags.UNNAMED}
    assert found(f"{LONG} Call it double.", oracle=oracle, tests=tests, new_names={"double"}) == set()


def test_a_new_message_that_the_tests_compare_must_be_in_the_instruction() -> None:
    oracle, tests = words('raise ValueError("must be a number")'), words('match="must be a number"')
    assert found(oracle=oracle, tests=tests) == {flags.UNNAMED}
    assert found(f'{LONG} It says "must be a number".', oracle=oracle, tests=tests) == set()


def test_large_changes_private_names_and_tests_that_cannot_be_loaded_are_flagged() -> None:
    assert found(lines=1000) == {flags.LARGE}
    assert found(oracle=words("def _carry(x):"), tests=words("_carry(3)")) == {flags.INTERNALS}
    assert found(only_loading=True, by_model=True) == {flags.LOADING, flags.BY_MODEL}


def test_a_line_of_the_oracle_in_the_instruction_is_flagged() -> None:
    assert found(f"{LONG}\n\n    return compute_total(a, b)", oracle=words("return compute_total(a, b)")) == {
        flags.SOLUTION
    }
