import ast
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grading.controls.altered import PATH, alterations_of, assert_each_fails, passes, text
from processor_time import is_within
from proctor.grading.controls import AlterationKind, alter, altered_lines, find_alterations, overlap

PROGRAM = """
import contextlib, re, unittest
from unittest import mock

def value(it): return it
def broken(): raise KeyError("no such proof")

@contextlib.contextmanager
def raises(kind, match=""):
    try:
        yield
    except kind as error:
        assert re.search(match, str(error))
    else:
        raise AssertionError("nothing was raised")

class approx:
    def __init__(self, number): self.number = number
    def __eq__(self, other): return abs(other - self.number) < 0.05
"""


def functions(body: str) -> bytes:
    return text(PROGRAM) + b"\ndef test_it():\n" + b"".join(b"    " + line for line in text(body).splitlines(True))


def method(body: str) -> bytes:
    lines = b"".join(b"        " + line for line in text(body).splitlines(keepends=True))
    return text(PROGRAM) + b"\nclass Case(unittest.TestCase):\n    def test_it(self):\n" + lines


@pytest.mark.parametrize(
    ("body", "kind", "altered"),
    [
        ("assert value(5) == 5", "literal", "assert value(5) == 4"),
        ("it = value([1, 2])\nassert value(3) == sum(it)", "literal", "assert value(3) == sum(it) + 1"),
        (
            "it = value([2, 1])\nassert value([1, 2]) == sorted(it)",
            "literal",
            "assert value([1, 2]) == sorted(it) + [1]",
        ),
        ("assert 31 == value(31)", "literal", "assert 30 == value(31)"),
        ("assert value(30) == 30", "literal", "assert value(30) == 20"),
        ("assert value(1) == 1", "literal", "assert value(1) == 2"),
        ("assert value(-0.25) == -0.25", "literal", "assert value(-0.25) == -0.35"),
        ("assert value(255) == 0xff", "literal", "assert value(255) == 0xfe"),
        ("assert value('proof') == 'proof'", "literal", "assert value('proof') == 'prooe'"),
        ("assert value('a\\n') == 'a\\n'", "literal", "assert value('a\\n') == 'b\\n'"),
        ("assert value('') == ''", "literal", "assert value('') == 'x'"),
        ("assert value(b'\\x00') == b'\\x00'", "literal", "assert value(b'\\x00') == b'\\x01'"),
        ("assert value('%d of' % 3) == '%d of' % 3", "literal", "assert value('%d of' % 3) == '%d of' % 2"),
        ("n = 3\nassert value('3 of') == f'{n} of'", "literal", "assert value('3 of') == f'{n} oe'"),
        ("assert value([1, 'b']) == [1, 'b']", "literal", "assert value([1, 'b']) == [1, 'c']"),
        ("assert value({'a': 2}) == {'a': 2}", "literal", "assert value({'a': 2}) == {'a': 1}"),
        ("assert value([]) == []", "literal", "assert value([]) == [0]"),
        ("assert value(True) is True", "literal", "assert value(True) is False"),
        ("assert value(None) is None", "literal", "assert value(None) is True"),
        ("assert 'proof' in value('a proof')", "literal", "assert 'prooe' in value('a proof')"),
        ("assert value(2.501) == approx(2.5)", "literal", "assert value(2.501) == approx(3.5)"),
        ("expected = [1, 2]\nassert value([1, 2]) == expected", "literal", "expected = [1, 3]"),
        ("for n, e in [(1, 2), (2, 3)]:\n    assert n + 1 == e", "literal", "for n, e in [(1, 2), (2, 4)]:"),
        ("cases = {1: 'b'}\nfor n, e in cases.items():\n    assert value('b') == e", "literal", "cases = {1: 'c'}"),
        (
            "with raises(KeyError, match='no such'): broken()",
            "literal",
            "with raises(KeyError, match='no suci'): broken()",
        ),
        ("with raises(KeyError): broken()", "exception", "with raises(EOFError): broken()"),
        ("try: broken()\nexcept KeyError: pass\nelse: assert 0", "exception", "except EOFError: pass"),
        ("assert value(True)", "boolean", "assert not value(True)"),
        ("assert not value(0)", "boolean", "assert value(0)"),
        ("assert value(0) or value(1)", "boolean", "assert not (value(0) or value(1))"),
        ("if value(0): raise ValueError", "boolean", "if not value(0): raise ValueError"),
        ("a = value(3)\nassert a > 2", "comparison", "assert a <= 2"),
        ("a = value(3)\nassert a not in (4, 5)", "comparison", "assert a in (4, 5)"),
        ("a = value(3)\nassert value(a) == a", "comparison", "assert value(a) != a"),
        ("value(3)", "statement", "value(3); assert 0"),
        ("pass", "statement", "assert 0; pass"),
        ("for _ in ():\n    pass", "statement", "pass\n    assert 0"),
    ],
)
def test_each_rule_of_functions(body: str, kind: str, altered: str) -> None:
    source = functions(body)
    first = assert_each_fails(source, "test_it")[0]
    assert (first.kind, first.altered) == (kind, altered)


@pytest.mark.parametrize(
    ("body", "kind", "altered"),
    [
        ("self.assertEqual(value(5), 5)", "literal", "self.assertEqual(value(5), 4)"),
        ("self.assertEqual(5, value(5), 'five')", "literal", "self.assertEqual(4, value(5), 'five')"),
        ("self.assertAlmostEqual(value(2.5001), 2.5, 2)", "literal", "self.assertAlmostEqual(value(2.5001), 3.5, 2)"),
        ("self.assertAlmostEqual(1500, 1600, delta=200)", "literal", "self.assertAlmostEqual(1500, 2600, delta=200)"),
        ("self.assertTrue(value(5) == 5)", "literal", "self.assertTrue(value(5) == 4)"),
        ("self.assertIn('proof', value('a proof'))", "literal", "self.assertIn('prooe', value('a proof'))"),
        ("self.assertRegex(value('no 12'), r'no \\d+')", "literal", "self.assertRegex(value('no 12'), r'np \\d+')"),
        ("self.assertCountEqual(value([1, 2]), [2, 1])", "literal", "self.assertCountEqual(value([1, 2]), [2, 3])"),
        ("eq = self.assertEqual\neq(value(5), 5)", "literal", "eq(value(5), 4)"),
        (
            "with self.assertRaisesRegex(KeyError, 'proof'): broken()",
            "literal",
            "with self.assertRaisesRegex(KeyError, 'prooe'): broken()",
        ),
        ("self.assertRaises(KeyError, broken)", "exception", "self.assertRaises(EOFError, broken)"),
        (
            "with self.assertRaises((KeyError, OSError)) as caught:\n    broken()",
            "exception",
            "with self.assertRaises(ZeroDivisionError) as caught:",
        ),
        ("self.assertTrue(value(5))", "boolean", "self.assertFalse(value(5))"),
        ("self.assertFalse(value(0))", "boolean", "self.assertTrue(value(0))"),
        ("self.assertIsNone(value(None))", "comparison", "self.assertIsNotNone(value(None))"),
        ("self.assertNotEqual(value(5), 6)", "comparison", "self.assertEqual(value(5), 6)"),
        ("self.assertGreater(value(5), 4)", "comparison", "self.assertLessEqual(value(5), 4)"),
        ("self.assertIsInstance(value(5), int)", "comparison", "self.assertNotIsInstance(value(5), int)"),
        (
            "call = mock.Mock()\ncall(1, a='b')\ncall.assert_called_once_with(1, a='b')",
            "literal",
            "call.assert_called_once_with(1, a='c')",
        ),
        (
            "call, a = mock.Mock(), []\ncall(a)\ncall.assert_called_with(a)",
            "comparison",
            "call.assert_called_with(a, None)",
        ),
        ("call = mock.Mock()\ncall.assert_not_called()", "comparison", "call.assert_called()"),
        (
            "for n in (1, 2):\n    with self.subTest(n=n):\n        self.assertEqual(value('s'), 's')",
            "literal",
            "self.assertEqual(value('s'), 't')",
        ),
    ],
)
def test_each_rule_of_methods(body: str, kind: str, altered: str) -> None:
    source = method(body)
    first = assert_each_fails(source, "Case.test_it")[0]
    assert (first.kind, first.altered) == (kind, altered)


def test_inputs_are_altered_only_as_the_last_resort() -> None:
    found = alterations_of(functions("a = value('b')\nassert value(a)"), "tests.test_sample.test_it")
    assert [one.altered for one in found] == ["assert not value(a)", "assert value(a); assert 0"]
    found = alterations_of(functions("assert value('b') == str('b')[0]"), "tests.test_sample.test_it")
    assert [one.kind for one in found][:2] == ["literal", "comparison"]


def test_the_last_certain_assertion_is_altered_first_and_other_assertions_before_other_changes_of_one() -> None:
    found = assert_each_fails(
        functions("""
            assert value([1, 2]) == [1, 2]
            assert value(3)
            if value(True):
                assert value(4) == 4
            assert value(5) == 5
            """),
        "test_it",
    )
    first = found[0].first_line
    assert [one.first_line - first for one in found][:3] == [0, -4, -3]
    assert {one.first_line - first for one in found} == {0, -1, -3, -4}
    assert found[-1].kind is AlterationKind.STATEMENT


def test_an_assertion_whose_failure_is_caught_comes_late() -> None:
    found = alterations_of(
        functions("try:\n    assert value(4) == 4\nexcept Exception:\n    pass\nassert value(True)"),
        "tests.test_sample.test_it",
    )
    assert found[0].altered == "assert not value(True)"


@given(
    st.recursive(
        st.none()
        | st.booleans()
        | st.integers()
        | st.floats(allow_nan=False)
        | st.text(max_size=20)
        | st.binary(max_size=9),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.tuples(inner, inner)
            | st.dictionaries(st.text(max_size=3), inner, max_size=3)
        ),
        max_leaves=5,
    )
)
def test_whatever_literal_is_expected_another_is_not_equal_to_it(value: object) -> None:
    source = f"given = {value!r}\ndef test_it():\n    assert given == {value!r}\n".encode()
    if "inf" not in repr(value):
        found = assert_each_fails(source, "test_it")
        assert found[0].kind is AlterationKind.LITERAL
        assert found[0].path == PATH


@pytest.mark.parametrize(
    "expected",
    [
        '"one" "two"',
        '("one"\n        # a comment\n        "two")',
        '"""one\ntwo"""',
        "r'\\d\\w'",
        "'\\N{EN DASH}'",
        "'\\x41\\u00e9'",
        "'\u00e9\u4e2d'",
        "b'\\r\\n'",
        "f'{1 + 1}{{}}' 'two'",
        "f'{\"a\"!r:>5}'",
        "'a' \\\n        'b'",
        "1_000",
        "1e3",
        ".5",
        "2j",
        "0o17",
        "0b1",
        "-0",
        "{1, 2}",
        "set()",
        "(1,)",
        "{'a': {'b': [None]}}",
    ],
)
def test_a_literal_in_any_spelling_is_changed_and_compiles(expected: str) -> None:
    source = f"given = ({expected})\ndef test_it():\n    assert given == {expected}\n".encode()
    assert assert_each_fails(source, "test_it")[0].kind is AlterationKind.LITERAL


def test_lines_tabs_encodings_and_byte_order_marks_stay() -> None:
    lines = [
        "\ufeff# coding: utf-8",
        "def test_it():",
        "\tassert 'é' + 'a' == 'éa'  # é",
        "\tfor _ in 'é':",
        "\t\tpass",
        "",
    ]
    source = "\r\n".join(lines).encode()
    found = assert_each_fails(source, "test_it")
    assert {alter(source, [one]).count(b"\n") for one in found[:-1]} == {source.count(b"\n")}
    assert alter(source, found[-1:]).endswith(b"\t\tpass\r\n\tassert 0\r\n")


def test_a_file_that_is_not_python_or_not_utf_8_has_no_alterations() -> None:
    assert alterations_of(b"def test_it(:\n", "test_it") == ()
    assert alterations_of(b"def test_it():\n    assert '\xe9'\n", "test_it") == ()
    assert alterations_of("# coding: latin-1\ndef test_it():\n    assert 'é'\n".encode(), "test_it") == ()
    assert find_alterations("tests/data.unknown", b"", ["test_it"]) == {}


def test_an_expression_nested_too_deep_leaves_the_statement() -> None:
    source = f"def test_it():\n    assert {'+'.join(['1'] * 900)} == 900\n".encode()
    assert [one.kind for one in alterations_of(source, "test_it")][-1] == "statement"


def test_async_tests_and_functions_within_tests_are_altered() -> None:
    source = text("""
        import asyncio

        async def test_it():
            async def main():
                assert await asyncio.sleep(0, 7) == 7
            await main()
        """)
    assert assert_each_fails(source, "test_it")[0].altered == "assert await asyncio.sleep(0, 7) == 6"


def test_a_constant_of_the_file_is_altered_where_one_test_alone_uses_it() -> None:
    source = text("""
        WANTED = [1, 2]
        SHARED = [1, 2]

        def test_it():
            assert [1] + [2] == WANTED

        def test_one():
            assert [2 - 1, 2] == SHARED

        def test_two():
            assert SHARED == sorted(SHARED)
        """)
    assert assert_each_fails(source, "test_it")[0].altered == "WANTED = [1, 3]"
    assert all("SHARED = [1, 1]" not in one.altered for one in assert_each_fails(source, "test_one"))


def test_the_altered_lines_are_those_of_the_assertion_also_with_others_altered() -> None:
    source = text("""
        def test_one():
            for n in range(1):
                pass

        def test_two():
            expected = 5
            assert 2 + 3 == expected
        """)
    found = find_alterations(PATH, source, ["test_one", "test_two"])
    chosen = [found["test_one"][-1], found["test_two"][0]]
    altered = alter(source, chosen).decode().splitlines()
    assert [altered[line - 1].strip() for line in altered_lines(source, chosen, chosen[0])] == ["assert 0"]
    assert [altered[line - 1].strip() for line in altered_lines(source, chosen, chosen[1])] == [
        "assert 2 + 3 == expected"
    ]


def test_alterations_of_different_tests_can_be_made_together() -> None:
    source = Path(__file__).read_bytes()
    names = [node.name for node in ast.parse(source).body if isinstance(node, ast.FunctionDef)]
    found = find_alterations("tests/grading/controls/test_python_tests.py", source, names)
    assert set(found) == set(names)
    firsts = [alterations[0] for alterations in found.values()]
    assert not any(overlap(one, other) for one in firsts for other in firsts if one is not other)
    for alterations in found.values():
        assert len(alterations) <= 12
        for one in alterations:
            altered = alter(source, [one])
            assert altered != source
            compile(altered, PATH, "exec", dont_inherit=True)


def test_a_long_file_takes_a_second_or_two() -> None:
    body = "".join(f"    assert value({n}, 'a') == [{n}, 'b', None]\n    x = value({n})\n" for n in range(8))
    source = "".join(f"def test_{n}():\n{body}\n" for n in range(300)).encode()
    start = time.process_time()
    found = find_alterations(PATH, source, [f"test_{n}" for n in range(300)])
    assert is_within(time.process_time() - start, 2)
    assert len(found) == 300


def test_a_right_program_passes_what_was_not_altered() -> None:
    assert not passes(functions("assert value(5) == 6"), "test_it")


def layout(source: bytes) -> list[type]:
    """The types of the constants of the compiled test, in the order in which the code holds them."""
    names: dict[str, object] = {}
    exec(compile(source, PATH, "exec"), names)
    return [type(constant) for constant in names["test_it"].__code__.co_consts]  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("body", "altered"),
    [
        (
            "assert value(4) == 4\nassert value(5) != 6\nassert value(3) + value(4) == 7",
            "assert value(3) + value(4) == 8",
        ),
        ("assert value(5) + value(2) == 7\nassert value(5) == 5", "assert value(5) + value(2) == 6"),
        ("assert value(29) + 1 == 30\nassert [20] + [0] != 10", "assert value(29) + 1 == 31"),
    ],
)
def test_an_altered_constant_leaves_the_layout_of_the_compiled_test(body: str, altered: str) -> None:
    source = functions(body)
    (first, *_) = alterations_of(source, "tests.test_sample.test_it")
    assert first.altered == altered
    changed = alter(source, [first])
    assert layout(changed) == layout(source)


def test_where_no_number_is_free_the_nearest_is_taken() -> None:
    (first, *_) = alterations_of(
        functions("assert [0, 1, 2, 3, 4, 6, 7, 8, 9][4] == 4\nassert value(2 + 3) == 5"), "tests.test_sample.test_it"
    )
    assert first.altered == "assert value(2 + 3) == 4"
