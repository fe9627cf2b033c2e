import pytest

from altered_sources import changes, concerned
from proctor.grading.controls import find_alterations

IMPORTS = "import static org.junit.jupiter.api.Assertions.*;\n"


def inside(statement: str, *, before: str = "", annotation: str = "@Test", imports: str = IMPORTS) -> list[str]:
    """The changes of a test that makes this one statement."""
    source = f"{imports}class CalcTest {{\n{before}\n{annotation}\nvoid adds() {{\n{statement}\n}}\n}}\n"
    return changes("src/test/java/p/CalcTest.java", source, "p.CalcTest::adds")


@pytest.mark.parametrize(
    ("statement", "first"),
    [
        ("assertEquals(5, add(2, 3));", "assertEquals(4, add(2, 3));"),
        ('assertEquals(f(1), "ab");', 'assertEquals(f(1), "ac");'),
        ('assertEquals("message", 5, f(1));', 'assertEquals("message", 4, f(1));'),
        ("assertEquals(1.5, f(1), 0.01);", "assertEquals(2.5, f(1), 0.01);"),
        ("assertEquals('c', f(1));", "assertEquals('d', f(1));"),
        ("assertEquals(List.of(1, 2), f(1));", "assertEquals(List.of(2, 2), f(1));"),
        ("assertEquals(f(1), g(1));", "assertNotEquals(f(1), g(1));"),
        ("assertTrue(f(1));", "assertTrue(!(f(1)));"),
        ("assertTrue(f(1) == 2);", "assertTrue(f(1) == 1);"),
        ('assertFalse("message", !f(1));', 'assertFalse("message", f(1));'),
        ("assertNull(f(1));", "assertNotNull(f(1));"),
        ("assertThrows(A.class, () -> f(1));", "assertThrows(IllegalStateException.class, () -> f(1));"),
        ("assertThat(f(1)).isEqualTo(2);", "assertThat(f(1)).isEqualTo(1);"),
        ("assertThat(f(1)).isEqualTo(x);", "assertThat(f(1)).isNotEqualTo(x);"),
        ("assertThat(f(1)).isTrue();", "assertThat(f(1)).isFalse();"),
        ('assertThat(f(1)).hasSize(2).contains("a");', 'assertThat(f(1)).hasSize(2).contains("b");'),
        ("assertThat(f(1), is(3));", "assertThat(f(1), is(2));"),
        ("assert f(1) == 2;", "assert f(1) == 1;"),
        ('if (f(1) != 2) { fail("x"); }', 'if (f(1) == 2) { fail("x"); }'),
        ("f(1);", 'f(1); throw new AssertionError("unexpected result");'),
        ("return;", 'if (true) throw new AssertionError("unexpected result"); return;'),
    ],
)
def test_the_least_conspicuous_change_of_an_assertion_comes_first(statement: str, first: str) -> None:
    assert inside(statement)[0] == first


def test_another_exception_is_expected() -> None:
    assert inside("f(1);", annotation="@Test(expected = IllegalStateException.class)") == [
        "@Test(expected = ArithmeticException.class)"
    ]


def test_an_exception_that_is_kept_in_a_variable_keeps_its_type() -> None:
    assert not any("IllegalStateException" in line for line in inside("A e = assertThrows(A.class, () -> f(1));"))


def test_an_assertion_is_called_as_it_can_be_reached() -> None:
    single = "import static org.junit.Assert.assertEquals;\n"
    assert inside("assertEquals(a, b);", imports=single)[0] == "org.junit.Assert.assertNotEquals(a, b);"
    both = f"{single}import static org.junit.Assert.assertNotEquals;\n"
    assert inside("assertEquals(a, b);", imports=both)[0] == "assertNotEquals(a, b);"
    assert inside("Assert.assertEquals(a, b);", imports=single)[0] == "Assert.assertNotEquals(a, b);"


def test_variables_and_helpers() -> None:
    assert inside('String expected = "ab";\nassertEquals(expected, f(1));')[0] == 'String expected = "ac";'
    helper = "private void check(int a, int want) { assertEquals(want, f(a)); }"
    assert inside("check(1, 3);", before=helper)[0] == "check(1, 2);"


@pytest.mark.parametrize(
    "test",
    [
        "p.CalcTest::adds",
        "p.CalcTest.adds",
        "CalcTest > adds()",
        "CalcTest#adds",
        "adds(p.CalcTest)",
        "CalcTest.adds[1]",
    ],
)
def test_ids_of_reports_and_logs(test: str) -> None:
    source = "class CalcTest {\n@Test\nvoid adds() { assertEquals(5, f(1)); }\n}\n"
    assert changes("p/CalcTest.java", source, test)[0] == "void adds() { assertEquals(4, f(1)); }"


def test_cases_of_one_method_are_altered_together() -> None:
    source = "class CalcTest {\n@ParameterizedTest\nvoid adds(int a) { assertEquals(a, f(a)); }\n}\n"
    tests = ["p.CalcTest::adds(int)[1]", "p.CalcTest::adds(int)[2]"]
    assert concerned("p/CalcTest.java", source, tests) == {test: {tuple(tests)} for test in tests}


def test_names_that_are_shown_and_classes_around() -> None:
    source = """class CalcTest {
  @Test @DisplayName("adds numbers")
  void adds() { assertEquals(5, f(1)); }
  @Nested
  class Inner {
    @Test
    void adds() { assertEquals(7, f(1)); }
  }
}
"""
    tests = ["p.CalcTest::adds()", "p.CalcTest$Inner::adds()", "CalcTest > adds numbers"]
    firsts = [changes("p/CalcTest.java", source, test, tests)[0] for test in tests]
    assert firsts == [f"void adds() {{ assertEquals({number}, f(1)); }}" for number in (4, 6, 4)]


def test_an_id_of_another_class_is_not_altered() -> None:
    source = b"class CalcTest {\n@Test\nvoid adds() { assertEquals(5, f(1)); }\n}\n"
    tests = ["p.CalcTest::adds", "p.OtherTest::adds"]
    assert list(find_alterations("p/CalcTest.java", source, tests)) == tests[:1]
