import ast

import pytest

from grading.controls.altered import PATH, alterations_of, assert_each_fails, passes, text
from proctor.grading.controls import alter, altered_lines, find_alterations

SOURCE = text("""
    import unittest

    def increase(number):
        return number + 1

    class Checks:
        def check(self, given, expected):
            self.assertEqual(increase(given), expected)

        def refuse(self, *given):
            for one in given:
                with self.assertRaises(TypeError):
                    increase(one)

        def through(self, given):
            self.refuse(given)

    class Case(Checks, unittest.TestCase):
        def test_literal(self):
            self.check(1, 2)

        def test_refused(self):
            self.refuse("a", None)

        def test_through(self):
            self.through("a")

        def test_others(self):
            self.refuse("b")
            self.check(2, 3)

    def near(given, limit):
        assert given < limit

    def test_near():
        near(increase(1), 5)

    if __name__ == "__main__":
        unittest.main()
""")
NAMES = ["Case.test_literal", "Case.test_refused", "Case.test_through", "Case.test_others", "test_near"]


def test_the_expected_argument_of_a_call_is_altered_first() -> None:
    found = assert_each_fails(SOURCE, "Case.test_literal")
    assert (found[0].kind, found[0].altered) == ("literal", "self.check(1, 3)")


@pytest.mark.parametrize("name", NAMES)
def test_every_alteration_of_a_test_that_uses_helpers_fails_this_test_alone(name: str) -> None:
    for one in assert_each_fails(SOURCE, name):
        altered = alter(SOURCE, [one])
        assert all(passes(altered, other) for other in NAMES if other != name), one


def test_a_copy_of_the_helper_stands_behind_all_else_in_its_class_and_is_named_like_it() -> None:
    one = alterations_of(SOURCE, "Case.test_refused")[0]
    altered = alter(SOURCE, [one]).decode()
    assert (one.kind, one.original, one.altered) == (
        "exception",
        "with self.assertRaises(TypeError):",
        "with self.assertRaises(EOFError):",
    )
    assert SOURCE.decode().splitlines()[one.first_line - 1].strip() == 'self.refuse("a", None)'
    classes = {node.name: node for node in ast.parse(altered).body if isinstance(node, ast.ClassDef)}
    names = [node.name for node in classes["Checks"].body if isinstance(node, ast.FunctionDef)]
    assert names[:3] == ["check", "refuse", "through"]
    assert [name.rstrip("0123456789") for name in names[3:]] == ["refuse_"]


def test_a_helper_of_a_helper_is_copied_too() -> None:
    one = alterations_of(SOURCE, "Case.test_through")[0]
    altered = alter(SOURCE, [one])
    assert (one.kind, altered.count(b"def refuse"), altered.count(b"def through")) == ("exception", 2, 2)


def test_a_copy_of_a_function_stands_before_what_runs_the_file() -> None:
    one = alterations_of(SOURCE, "test_near")[0]
    assert alter(SOURCE, [one]).decode().index("given >= limit") < SOURCE.decode().index("if __name__") + 200
    assert alter(SOURCE, [one]).endswith(b"unittest.main()\n")


def test_the_alterations_of_all_tests_can_be_made_together_and_their_lines_are_known() -> None:
    found = find_alterations(PATH, SOURCE, NAMES)
    for number in range(3):
        chosen = [found[name][min(number, len(found[name]) - 1)] for name in NAMES]
        altered = alter(SOURCE, chosen)
        assert not any(passes(altered, name) for name in NAMES)
        lines = altered.decode().splitlines()
        for name, one in zip(NAMES, chosen, strict=True):
            for line in altered_lines(SOURCE, chosen, one):
                assert any(word in lines[line - 1] for word in ("check", "refuse", "through", "near")), (name, one)


@pytest.mark.parametrize("ending", ["", "\n", "\n\n"])
def test_a_class_at_the_end_of_a_file_gets_its_copy(ending: str) -> None:
    source = (
        text("""
        import unittest

        def near(given):
            assert given

        class Case(unittest.TestCase):
            def check(self, given):
                self.assertTrue(given)

            def test_one(self):
                self.check(True)

            def test_two(self):
                near(True)
        """).rstrip()
        + ending.encode()
    )
    names = ["Case.test_one", "Case.test_two"]
    for name in names:
        assert_each_fails(source, name)
    found = find_alterations(PATH, source, names)
    both = alter(source, [found[name][0] for name in names])
    assert not any(passes(both, name) for name in names)
    assert not any(passes(alter(source, [found[name][0] for name in reversed(names)]), name) for name in names)


def test_a_class_within_a_class_at_the_end_gets_its_copy() -> None:
    source = text("""
        class Outer:
            def check(self, given):
                assert given

            def test_outer(self):
                self.check(5 > 4)

            class Inner:
                def check(self, given):
                    assert given

                def test_inner(self):
                    self.check(5 > 4)
        """)
    names = ["t.py::Outer::test_outer", "t.py::Outer::Inner::test_inner"]
    found = find_alterations("t.py", source, names)
    assert [found[name][0].kind for name in names] == ["boolean", "boolean"]
    for order in (names, names[::-1]):
        tree = ast.parse(alter(source, [found[name][0] for name in order]))
        outer = tree.body[0]
        assert isinstance(outer, ast.ClassDef)
        inner = next(node for node in outer.body if isinstance(node, ast.ClassDef))
        assert len([node for node in outer.body if isinstance(node, ast.FunctionDef)]) == 3
        assert len(inner.body) == 3


def test_what_a_test_gets_or_defines_under_the_name_of_a_function_is_no_helper() -> None:
    source = text("""
        def check(given):
            assert given

        def test_fixture(check):
            check(5)

        def test_own():
            def check(given):
                assert given == 5
            check(5)
        """)
    assert [one.kind for one in alterations_of(source, "test_sample.test_fixture")] == ["literal", "statement"]
    assert assert_each_fails(source, "test_own")[0].altered == "assert given == 4"


def test_a_copy_is_never_taken_for_a_test() -> None:
    source = text("""
        def test_inner(given=5):
            assert given < 6

        def test_it():
            test_inner(4 + 1)
        """)
    for one in assert_each_fails(source, "test_it"):
        names = {node.name for node in ast.parse(alter(source, [one])).body if isinstance(node, ast.FunctionDef)}
        assert {name for name in names if name.startswith("test")} == {"test_inner", "test_it"}


def test_what_a_function_of_the_file_gets_is_not_what_it_expects_because_of_its_name() -> None:
    source = text("""
        def assert_equal_to_itself(given):
            assert given == given

        def test_it():
            def assert_both_equal(one, two):
                assert (one, two) == (one, two)

            assert_both_equal(1, 2)
            assert_equal_to_itself(3)
        """)
    found = alterations_of(source, "test_it")
    assert [one.altered for one in found[:2]] == [
        "assert (one, two) != (one, two)",
        "assert given != given",
    ]
