import pytest

from grading.controls.altered import alterations_of, passes, text
from proctor.grading.controls import alter, altered_lines, find_alterations

SOURCE = text('''
    import unittest

    def test_plain():
        assert 1 + 1 == 2

    def test_labelled():
        """Labels are printed.

        More of it.
        """
        assert 2 + 2 == 4

    class Base:
        def test_inherited(self):
            assert 3 + 3 == 6

    class Case(Base, unittest.TestCase):
        def test_method(self):
            assert 4 + 4 == 8

        test_alias = test_method

        class Inner:
            def test_inner(self):
                assert 5 + 5 == 10

        @parameterized.expand([("a", 1), ("b", 2)])
        def test_many(self, name, number):
            assert 6 + 6 == 12

    class Other(Base, unittest.TestCase):
        pass

    if True:
        def test_under_condition():
            assert 7 + 7 == 14
''')


@pytest.mark.parametrize(
    ("path", "test", "line"),
    [
        ("tests/test_x.py", "tests.test_x.Case.test_method", "4 + 4"),
        ("src/package/tests/test_x.py", "package.tests.test_x.Case.test_method", "4 + 4"),
        ("tests/test_x.py", "package.tests.test_x.Case.test_method", "4 + 4"),
        ("test_x.py", "test_x.Case.test_method", "4 + 4"),
        ("tests/test_x.py", "Case.test_method", "4 + 4"),
        ("tests/test_x.py", "tests.test_x.Case.test_method (n=1)", "4 + 4"),
        ("tests/test_x.py", "tests.test_x.Case.test_inherited", "3 + 3"),
        ("package/__init__.py", "package.Case.test_method", "4 + 4"),
        ("tests/test_x.py", "tests/test_x.py::test_plain", "1 + 1"),
        ("tests/test_x.py", "tests/test_x.py::test_plain[a::b-1.5]", "1 + 1"),
        ("tests/test_x.py", "./tests/test_x.py::test_plain[a.b/c.py::d", "1 + 1"),
        ("packages/one/tests/test_x.py", "tests/test_x.py::Case::test_method", "4 + 4"),
        ("tests/test_x.py", "tests/test_x.py::Case::()::test_method", "4 + 4"),
        ("tests/test_x.py", "tests/test_x.py::Case::Inner::test_inner", "5 + 5"),
        ("tests/test_x.py", "tests.test_x.Case::test_method", "4 + 4"),
        ("tests/test_x.py", "tests/test_x.py::Case::test_many_0_a", "6 + 6"),
        ("tests/test_x.py", "tests.test_x.Case.test_many_1", "6 + 6"),
        ("tests/test_x.py", "tests.test_x.Case.test_alias", "4 + 4"),
        ("tests/queries/test_x.py", "test_method (queries.test_x.Case)", "4 + 4"),
        ("tests/queries/test_x.py", "test_method (queries.test_x.Case.test_method)", "4 + 4"),
        ("tests/queries/test_x.py", "test_method (queries.test_x.Case.test_method) (n=1)", "4 + 4"),
        ("tests/queries/test_x.py", "test_method (queries.test_x.Case)\nLabels are printed.", "4 + 4"),
        ("tests/queries/test_x.py", "Labels are printed.", "2 + 2"),
        ("sympy/core/tests/test_x.py", "test_plain", "1 + 1"),
        ("sympy/core/tests/test_x.py", "sympy/core/tests/test_x.py:test_plain", "1 + 1"),
        ("tests/test_x.py", "test_under_condition", "7 + 7"),
    ],
)
def test_an_id_names_a_test_of_the_file(path: str, test: str, line: str) -> None:
    found = alterations_of(SOURCE, test, path)
    assert found
    assert line in found[0].original
    assert found[0].tests == (test,)


@pytest.mark.parametrize(
    "test",
    [
        "tests/test_y.py::test_plain",
        "other/test_x.py::test_plain",
        "tests.test_y.Case.test_method",
        "other.test_x.Case.test_method",
        "test_method (other.test_x.Case)",
        "sympy/core/tests/test_y.py:test_plain",
        "tests.test_x.Case.test_nothing",
        "tests.test_x.Nobody.test_method",
        "tests/test_x.py::Case",
        "tests/test_x.py",
        "--version is equivalent to version",
        "[",
        "::",
        "",
    ],
)
def test_an_id_of_another_file_or_of_nothing_names_no_test(test: str) -> None:
    assert alterations_of(SOURCE, test, "tests/test_x.py") == ()


def test_tests_that_share_their_code_share_their_alterations() -> None:
    cases = [f"tests/test_x.py::test_plain[{n}]" for n in range(3)]
    inherited = ["tests/test_x.py::Case::test_inherited", "tests/test_x.py::Other::test_inherited"]
    found = find_alterations("tests/test_x.py", SOURCE, [*cases, *inherited])
    assert {found[case] for case in cases} == {found[cases[0]]}
    assert found[cases[0]][0].tests == tuple(cases)
    assert found[inherited[1]][0].tests == tuple(inherited)


def test_values_that_are_in_the_ids_of_tests_are_never_changed() -> None:
    source = text("""
        import pytest

        CASES = [(1, 2), (2, 3)]

        @pytest.mark.parametrize(("given", "expected"), CASES, ids=["one", "two"])
        def test_it(given, expected):
            assert given + 1 == expected
        """)
    found = alterations_of(source, "tests/test_sample.py::test_it[one]")
    assert [one.altered for one in found] == [
        "assert given + 2 == expected",
        "assert given + 1 != expected",
        "assert given + 1 == expected; assert 0",
    ]


def test_a_label_that_several_tests_share_alters_all_of_them() -> None:
    source = text("""
        import unittest

        class Case(unittest.TestCase):
            def test_one(self):
                "The same label."
                self.assertEqual(1 + 1, 2)

            def test_two(self):
                "The same label."
                self.assertEqual(2 + 2, 4)
        """)
    for one in alterations_of(source, "The same label."):
        altered = alter(source, [one])
        assert not passes(altered, "Case.test_one")
        assert not passes(altered, "Case.test_two")
        assert (one.first_line, one.last_line) == (6, 10)


def test_a_method_that_is_inherited_from_another_file_is_overridden() -> None:
    source = text("""
        import unittest
        from elsewhere import Base

        class Case(Base, unittest.TestCase):
            setting = 1

        class Other(Case):
            pass
        """).replace(b"from elsewhere import Base", b"Base = type('Base', (), {'test_it': lambda self: None})")
    tests = ["tests.test_sample.Case.test_it", "test_it (tests.test_sample.Other)"]
    found = find_alterations("tests/test_sample.py", source, tests)
    assert [found[test][0].kind for test in tests] == ["statement", "statement"]
    assert not passes(alter(source, found[tests[0]]), "Case.test_it")
    assert passes(alter(source, found[tests[1]]), "Case.test_it")
    assert not passes(alter(source, found[tests[1]]), "Other.test_it")
    lines = alter(source, found[tests[0]]).decode().splitlines()
    assert any("assert 0" in lines[line - 1] for line in altered_lines(source, found[tests[0]], found[tests[0]][0]))
    # A method of pytest may have fixtures, which are told by its own parameters.
    assert find_alterations("tests/test_sample.py", source, ["tests/test_sample.py::Case::test_it"]) == {}
