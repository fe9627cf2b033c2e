import json
import shutil
import subprocess
from pathlib import Path

import pytest

from altered_sources import changes, concerned
from paths import REPOSITORY
from proctor.grading.controls import Alteration, alter, find_alterations, overlap
from proctor.grading.tap import parse_tap


def inside(statement: str, before: str = "") -> list[str]:
    """The changes of a test that makes this one statement."""
    return changes("tests/a.test.js", f'{before}\ntest("adds", async (t) => {{\n{statement}\n}});\n', "adds")


@pytest.mark.parametrize(
    ("statement", "first"),
    [
        ("assert.equal(sum(1, 2), 3);", "assert.equal(sum(1, 2), 2);"),
        ("assert.equal(3, sum(1, 2));", "assert.equal(2, sum(1, 2));"),
        ('assert.strictEqual(name(), "ab", "message");', 'assert.strictEqual(name(), "ac", "message");'),
        ("assert.deepEqual(f(), { a: [1], b: {} });", "assert.deepEqual(f(), { a: [2], b: {} });"),
        ('assert.deepEqual(f(), { "a": "" });', 'assert.deepEqual(f(), { "a": "x" });'),
        ("assert.deepEqual(f(), []);", "assert.deepEqual(f(), [0]);"),
        ("t.deepEqual(f(), true);", "t.deepEqual(f(), false);"),
        ("assert.equal(f(), null);", "assert.equal(f(), 0);"),
        ("assert.equal(f(), `a ${b}`);", "assert.equal(f(), `b ${b}`);"),
        ("assert.match(f(), /^a\\d+b/i);", "assert.match(f(), /^a\\d+c/i);"),
        ("assert.throws(() => f(1), TypeError);", "assert.throws(() => f(1), RangeError);"),
        ("assert.throws(() => f(1), /large/);", "assert.throws(() => f(1), /largf/);"),
        ('await assert.rejects(f(1), { message: "no" });', 'await assert.rejects(f(1), { message: "np" });'),
        ("assert.throws(() => f(1), (e) => e === x);", "assert.throws(() => f(1), (e) => !(e === x));"),
        ("assert.throws(() => f(1));", "assert.doesNotThrow(() => f(1));"),
        ("assert.ok(f(1));", "assert.ok(!(f(1)));"),
        ("assert(f(1) > g);", "assert(f(1) <= g);"),
        ("assert.ok(!f(1));", "assert.ok(f(1));"),
        ("assert.notEqual(f(1), 3);", "assert.equal(f(1), 3);"),
        ("assert.equal(f(1), g(1));", "assert.notEqual(f(1), g(1));"),
        ("expect(f(1)).toBe(2);", "expect(f(1)).toBe(1);"),
        ("expect(f(1)).not.toBe(2);", "expect(f(1)).toBe(2);"),
        ("expect(f(1)).toBeTruthy();", "expect(f(1)).not.toBeTruthy();"),
        ("expect(f(1)).toEqual(x);", "expect(f(1)).not.toEqual(x);"),
        ("await expect(f(1)).resolves.toEqual(x);", "await expect(f(1)).resolves.not.toEqual(x);"),
        ('expect(() => f(1)).toThrow("bad");', 'expect(() => f(1)).toThrow("bae");'),
        ("expect(() => f(1)).toThrow(TypeError);", "expect(() => f(1)).toThrow(RangeError);"),
        ("expect(f(1)).toBeGreaterThan(5);", "expect(f(1)).not.toBeGreaterThan(5);"),
        ("expect(f(1)).to.equal(2);", "expect(f(1)).to.equal(1);"),
        ("expect(f(1)).to.be.true;", "expect(f(1)).not.to.be.true;"),
        ("f(1).should.equal(2);", "f(1).should.equal(1);"),
        ("f(1).should.be.empty;", "f(1).should.not.be.empty;"),
        ('if (f(1) !== 2) throw new Error("x");', 'if (f(1) === 2) throw new Error("x");'),
        ("if (!f(1)) { throw g; }", "if (f(1)) { throw g; }"),
        ("f(1);", 'throw new Error("unexpected result"); });'),
    ],
)
def test_the_least_conspicuous_change_of_an_assertion_comes_first(statement: str, first: str) -> None:
    assert inside(statement)[0].replace("\n", " ") == first


def test_a_statement_that_fails_is_the_last_resort() -> None:
    found = inside("assert.equal(sum(1, 2), 3);")
    assert found[-2:] == ["assert.equal(1, 0); });", 'throw new Error("unexpected result"); });']
    assert inside("return f(1);") == ['throw new Error("unexpected result"); return f(1);']
    expression = changes("a.js", 'it("adds", () => f(1));', "adds")
    assert expression == ['it("adds", () => { f(1); throw new Error("unexpected result"); });']


def test_an_expected_variable_is_changed_where_it_is_declared() -> None:
    found = inside('const expected = { a: "b" };\nassert.deepEqual(f(1), expected);')
    assert found[:2] == ['const expected = { a: "c" };', "assert.notDeepEqual(f(1), expected);"]


def test_a_helper_is_given_another_value_where_it_expects_one() -> None:
    helper = "function check(text, expected) { assert.equal(parse(text), expected, text); }"
    assert inside('check("a=1", { a: "1" });', helper)[0] == 'check("a=1", { a: "2" });'
    assert not any('"a=2"' in line for line in inside('check("a=1", { a: "1" });', helper))
    assert (
        inside("table({ text: 5 });", "const table = (rows) => { check(rows); };\nfunction check(x) { assert(x); }")[0]
        == "table({ text: 4 });"
    )
    assert inside('make("a");', "function make(x) { return x; }")[0].startswith("throw")


def test_an_assertion_that_is_not_there_is_not_used() -> None:
    imported = 'const { equal } = require("node:assert");'
    assert not any("notEqual" in line for line in inside("equal(f(1), g(1));", imported))
    both = 'const { equal, notEqual } = require("node:assert");'
    assert inside("equal(f(1), g(1));", both)[0] == "notEqual(f(1), g(1));"


def test_names_that_are_made_in_a_loop_share_their_alterations() -> None:
    source = """
for (const size of [1, 2]) {
  test(`of size ${size}`, () => { assert.equal(f(size), g(size)); });
}
"""
    tests = ["of size 1", "of size 2"]
    assert concerned("a.js", source, tests) == {test: {tuple(tests)} for test in tests}


def test_a_row_of_a_table_is_altered_for_its_test_alone() -> None:
    source = """
const cases = [
  { name: "small", given: 1, want: 2 },
  { name: "large", given: 5, want: 6 },
];
for (const { name, given, want } of cases) {
  test(`adds ${name}`, () => { expect(add(given)).toBe(want); });
}
describe.each([["one", 1], ["two", 2]])("of %s", (name, n) => { it("counts", () => { expect(n).toBe(f(name)); }); });
"""
    tests = ["adds small", "adds large", "of one counts"]
    assert changes("a.ts", source, "adds small", tests)[0] == '{ name: "small", given: 1, want: 1 },'
    assert changes("a.ts", source, "adds large", tests)[0] == '{ name: "large", given: 5, want: 5 },'
    found = concerned("a.ts", source, tests)
    assert ("adds small",) in found["adds small"]
    assert ("adds small", "adds large") in found["adds small"]
    assert found["of one counts"] == {("of one counts",)}


def test_a_check_that_is_given_its_name_is_a_test() -> None:
    source = 'check("adds", sum(1, 2), 3);\ncheck("other", 1, 1);\n'
    assert changes("a.js", source, "adds")[0] == 'check("adds", sum(1, 2), 2);'


def test_events_are_no_tests() -> None:
    source = 'test("other", () => { emitter.on("adds", () => { assert.equal(f(1), 2); }); });'
    assert find_alterations("a.js", source.encode(), ["adds"]) == {}


def test_an_id_of_another_file_is_not_altered() -> None:
    source = 'it("adds", () => { assert.equal(f(1), 2); });'
    tests = ["test/a.test.ts | suite adds", "test/b.test.ts | suite adds"]
    assert list(find_alterations("test/a.test.ts", source.encode(), tests)) == tests[:1]


def test_typescript_and_markup_are_read() -> None:
    typed = 'it("adds", () => { const x: Map<string, number> = f<number>(1); expect(x!.size as number).toBe(2); });'
    assert "toBe(1)" in changes("a.ts", typed, "adds")[0]
    markup = 'it("shows", () => { expect(render(<App size={1}>text</App>)).toBe("text"); });'
    for path in ("a.jsx", "a.tsx"):
        assert changes(path, markup, "shows")[0].endswith('toBe("texu"); });')


def core_task(name: str, tmp_path: Path) -> tuple[Path, list[str], list[str]]:
    """A task of core, solved by its oracle: the tree, the command and the tests."""
    instance = REPOSITORY / "src/proctor/suites/core/instances" / name
    tree = tmp_path / "tree"
    shutil.copytree(instance / "repo", tree)
    subprocess.run(["git", "apply", str(instance / "oracle.diff")], cwd=tree, check=True)
    shutil.copytree(instance / "hidden", tree, dirs_exist_ok=True)
    evaluation = json.loads((instance / "instance.json").read_text())["eval"]
    return tree, evaluation["command"], evaluation["fail_to_pass"] + evaluation["pass_to_pass"]


def results(tree: Path, command: list[str]) -> dict[str, str]:
    done = subprocess.run(command, cwd=tree, capture_output=True, check=False)
    outcome = parse_tap(done.stdout)
    return {test: status.value for test, status in getattr(outcome, "tests", {}).items()}


@pytest.mark.parametrize("name", ["js_query_0028", "sh_rotate_0024", "sh_dotenv_0026"])
def test_oracles_fail_the_altered_half_of_their_tests_and_pass_the_other(name: str, tmp_path: Path) -> None:
    tree, command, tests = core_task(name, tmp_path)
    if shutil.which(command[0]) is None:
        pytest.skip(f"there is no {command[0]}")
    file = tree / command[-1]
    found = find_alterations(command[-1], file.read_bytes(), tests)
    assert sorted(found) == sorted(tests)
    chosen: list[Alteration] = []
    for test in sorted(tests)[::2]:
        if not any(overlap(found[test][0], other) for other in chosen):
            chosen.append(found[test][0])
    file.write_bytes(alter(file.read_bytes(), chosen))
    altered = {test for one in chosen for test in one.tests}
    assert len(altered) >= len(tests) // 2 - 1
    assert results(tree, command) == {test: "failed" if test in altered else "passed" for test in tests}
