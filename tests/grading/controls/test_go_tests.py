import shutil
import subprocess
from pathlib import Path

import pytest

from altered_sources import changes, concerned
from proctor.grading.controls import alter, find_alterations


def inside(statement: str, before: str = "") -> list[str]:
    """The changes of a test that makes this one statement."""
    source = f"package calc\n\n{before}\n\nfunc TestAdds(t *testing.T) {{\n{statement}\n}}\n"
    return changes("calc/calc_test.go", source, "example.com/calc::TestAdds")


@pytest.mark.parametrize(
    ("statement", "first"),
    [
        ('if got := Add(2, 3); got != 5 { t.Error("x") }', 'if got := Add(2, 3); got != 4 { t.Error("x") }'),
        ('if "ab" != f(1) { t.Fatal("x") }', 'if "ac" != f(1) { t.Fatal("x") }'),
        ("if f(1) != 'a' { t.Fail() }", "if f(1) != 'b' { t.Fail() }"),
        ("if f(1) != true { t.Fail() }", "if f(1) != false { t.Fail() }"),
        ("if got != want { t.Fail() }", "if got == want { t.Fail() }"),
        ("if err != nil { t.Fatal(err) }", "if err == nil { t.Fatal(err) }"),
        ("if len(x) < 3 { t.Fail() }", "if len(x) >= 3 { t.Fail() }"),
        ("if !ok { t.Fail() }", "if ok { t.Fail() }"),
        ("if f(1) { t.Fail() }", "if !(f(1)) { t.Fail() }"),
        ("if !f(255) { t.Fail() }", "if f(255) { t.Fail() }"),
        ('if !strings.Contains(x, "ab") { t.Fail() }', 'if !strings.Contains(x, "ac") { t.Fail() }'),
        ("if !reflect.DeepEqual(got, []int{}) { t.Fail() }", "if !reflect.DeepEqual(got, []int{1}) { t.Fail() }"),
        ("assert.Equal(t, 5, Add(2, 3))", "assert.Equal(t, 4, Add(2, 3))"),
        ("require.Equal(t, want, Add(2, 3))", "require.NotEqual(t, want, Add(2, 3))"),
        ("assert.Len(t, x, 3)", "assert.Len(t, x, 2)"),
        ("assert.NoError(t, err)", "assert.Error(t, err)"),
        ("assert.True(t, f(1))", "assert.True(t, !(f(1)))"),
        ('assert.ErrorContains(t, err, "no")', 'assert.ErrorContains(t, err, "np")'),
        ('assert.Equal(t, map[string]int{"k": 1}, f(2))', 'assert.Equal(t, map[string]int{"k": 2}, f(2))'),
        ("g.Expect(f(1)).To(Equal(2))", "g.Expect(f(1)).To(Equal(1))"),
        ("f(1)", 'f(1); t.Fatal("unexpected result")'),
        ("return", 't.Fatal("unexpected result"); return'),
    ],
)
def test_the_least_conspicuous_change_of_an_assertion_comes_first(statement: str, first: str) -> None:
    assert inside(statement)[0] == first


def test_an_expected_variable_is_changed_where_it_is_declared() -> None:
    found = inside('want := []string{"a"}\nif got := f(1); !reflect.DeepEqual(got, want) { t.Fail() }')
    assert found[0] == 'want := []string{"b"}'


def test_a_helper_that_is_given_the_test_is_given_another_value() -> None:
    helper = "func check(t *testing.T, a, want int) { if f(a) != want { t.Fail() } }"
    assert inside("check(t, 1, 3)", helper)[0] == "check(t, 1, 2)"


TABLE = """package calc

func TestTable(t *testing.T) {
	tests := []struct {
		name string
		a    int
		want int
	}{
		{"small numbers", 1, 3},
		{name: "zero", a: 7, want: 9},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			if got := f(tc.a); got != tc.want {
				t.Errorf("got %d", got)
			}
		})
	}
}

func TestMap(t *testing.T) {
	for name, want := range map[string]int{"one": 1, "two": 2} {
		t.Run("the "+name, func(t *testing.T) {
			if f(name) != want {
				t.Fail()
			}
		})
	}
}

func TestFixed(t *testing.T) {
	t.Run("first case", func(t *testing.T) {
		if f(1) != 3 {
			t.Fail()
		}
	})
}
"""


def test_a_row_of_a_table_is_altered_for_its_subtest_and_what_is_around_it() -> None:
    package = "example.com/calc::"
    tests = [package + name for name in ("TestTable", "TestTable/small_numbers", "TestTable/zero", "TestMap/the_two")]
    assert changes("calc/a_test.go", TABLE, tests[1], tests)[0] == '{"small numbers", 1, 2},'
    assert changes("calc/a_test.go", TABLE, tests[2], tests)[0] == '{name: "zero", a: 7, want: 8},'
    assert changes("calc/a_test.go", TABLE, tests[3], tests)[0].endswith('{"one": 1, "two": 1} {')
    found = concerned("calc/a_test.go", TABLE, tests)
    assert found[tests[1]] == {(tests[0], tests[1]), tuple(tests[:3])}
    assert not any("a: 6" in line for line in changes("calc/a_test.go", TABLE, tests[2], tests))


def test_fixed_subtests_and_ids_of_logs() -> None:
    for test in ("calc.TestFixed/first_case", "TestFixed/first_case", "x/calc::TestFixed/first_case#01"):
        assert changes("calc/a_test.go", TABLE, test)[0] == "if f(1) != 2 {"
    assert changes("calc/a_test.go", TABLE, "TestOther/first_case") == []


def test_ids_of_another_package_are_not_altered() -> None:
    tests = ["m/calc::TestFixed", "m/other::TestFixed"]
    assert list(find_alterations("calc/a_test.go", TABLE.encode(), tests)) == tests[:1]
    assert list(find_alterations("a_test.go", TABLE.encode(), tests)) == tests


def test_the_output_of_an_example_is_changed() -> None:
    source = "package calc\n\nfunc ExampleAdd() {\n\tfmt.Println(Add(1, 2))\n\t// Output:\n\t// sum 3\n}\n"
    assert changes("a_test.go", source, "ExampleAdd") == ["// sum 4"]


def test_names_of_subtests_are_not_changed() -> None:
    source = 'package a\n\nfunc TestAll(t *testing.T) {\n\trunAll(t, "one", "two")\n}\n'
    tests = ["TestAll/one", "TestAll/two", "TestAll"]
    found = changes("a_test.go", source, "TestAll", tests)
    assert found == ['runAll(t, "one", "two"); t.Fatal("unexpected result")']


@pytest.mark.skipif(shutil.which("go") is None, reason="there is no Go")
def test_altered_files_compile(tmp_path: Path) -> None:
    (tmp_path / "go.mod").write_text("module example.com/calc\n\ngo 1.18\n")
    prelude = 'import "testing"\n\nfunc f(x any) int {\n\tif x == "two" {\n\t\treturn 2\n\t}\n\treturn 3\n}\n'
    source = TABLE.replace("package calc\n", f"package calc\n\n{prelude}").encode()
    tests = ["TestTable/small_numbers", "TestTable/zero", "TestMap/the_two", "TestFixed/first_case"]
    found = find_alterations("calc_test.go", source, tests)
    chosen = [found[test][0] for test in tests]
    (tmp_path / "calc_test.go").write_bytes(alter(source, chosen))
    done = subprocess.run(["go", "vet", "./..."], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
