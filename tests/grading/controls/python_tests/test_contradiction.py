"""Only a changed literal in a comparison that every pass of a test makes needs no oracle."""

import pytest

from proctor.grading.controls import find_alterations

PATH = "tests/test_a.py"


def contradictions(body: str) -> set[str]:
    source = f"def test_a():\n    {body}\n".encode()
    found = find_alterations(PATH, source, [f"{PATH}::test_a"])
    return {one.altered for one in found[f"{PATH}::test_a"] if one.contradicts}


@pytest.mark.parametrize(
    "body",
    [
        "assert f(2) == 5",
        'assert f(2) == "five"',
        "assert f(2) == [1, (2, {3: -4})]",
        "assert 5 == f(2)",
        "self.assertEqual(f(2), 5)",
    ],
)
def test_a_literal_that_is_compared_in_any_case_contradicts(body: str) -> None:
    assert contradictions(body)


@pytest.mark.parametrize(
    "body",
    [
        "assert f(2) > 5",
        "assert 5 in f(2)",
        "assert f(2) == g(5)",
        "assert f(2) == pytest.approx(5)",
        "assert f(2)",
        "if f(1):\n        assert f(2) == 5",
        "for x in f(1):\n        assert x == 5",
        "if f(1):\n        return\n    assert f(2) == 5",
        "assert f(2) == 5 or f(3)",
    ],
)
def test_anything_else_may_pass_both(body: str) -> None:
    assert contradictions(body) == set()
