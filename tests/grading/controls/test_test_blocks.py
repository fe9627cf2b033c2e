from collections.abc import Sequence

from altered_sources import changes, concerned
from proctor.grading.controls import AlterationKind, find_alterations
from proctor.grading.controls.javascript_tests import JAVASCRIPT
from proctor.grading.controls.syntax_tree import ProposedChange, Proposer, parse_source
from proctor.grading.controls.test_blocks import HOLE, TestBlock, TestName, alterations_of_blocks, assign_ids


def block(*pieces: str | None, parent: TestBlock | None = None) -> TestBlock:
    return TestBlock(TestName(pieces), lambda: (), parent)


def ids(blocks: Sequence[TestBlock], *tests: str) -> list[list[str]]:
    assign_ids(tests, blocks)
    return [one.ids for one in blocks]


def test_an_id_belongs_to_the_block_with_the_longest_name_that_it_ends_with() -> None:
    blocks = [block("a name"), block("only a name"), block("refused: only a name")]
    assert ids(blocks, "suite > refused: only a name", "x only a name", "a name") == [
        ["a name"],
        ["x only a name"],
        ["suite > refused: only a name"],
    ]


def test_a_name_begins_at_a_word() -> None:
    assert ids([block("adds")], "loadadds", "it adds", "x::adds", "un_adds") == [["it adds", "x::adds"]]


def test_what_a_test_program_appends_is_passed_over() -> None:
    tests = ["adds (12 ms)", "Class::adds()", "adds(int)[2]", "adds#01", "adds (3.5 s) [chromium]"]
    assert ids([block("adds")], *tests) == [tests]


def test_names_around_a_test_decide_between_tests_of_one_name() -> None:
    one, other = block("reading"), block("writing")
    first, second, alone = block("works", parent=one), block("works", parent=other), block("works")
    blocks = [first, second, alone]
    assert ids(blocks, "reading > works", "a writing works", "works") == [
        ["reading > works"],
        ["a writing works"],
        ["works"],
    ]


def test_all_ids_that_fit_a_pattern_share_its_block() -> None:
    blocks = [block("adds ", HOLE, " and ", HOLE), block("adds 1 and 1")]
    assert ids(blocks, "adds 1 and 2", "adds x and y", "adds 1 and 1", "adds 1") == [
        ["adds 1 and 2", "adds x and y"],
        ["adds 1 and 1"],
    ]


def test_a_name_that_is_all_pattern_gets_what_no_other_block_gets() -> None:
    assert ids([block(HOLE), block("adds")], "adds", "anything") == [["anything"], ["adds"]]


def test_different_assertions_come_first_and_statements_last() -> None:
    lines = "\n".join(f"  assert.equal(f({number}), [{number}, 5, 'a', 'b']);" for number in range(3))
    found = changes("a.js", f'test("many", () => {{\n{lines}\n}});\n', "many")
    firsts = [line.partition(",")[0] for line in found[:3]]
    assert firsts == ["assert.equal(f(0)", "assert.equal(f(1)", "assert.equal(f(2)"]
    assert len(found) == 12
    assert "throw new Error" in found[-1]


def test_a_file_with_errors_of_its_own_is_altered_where_it_can_be_read() -> None:
    source = b'test("adds", () => {\n  assert.equal(sum(1, 2), 3);\n});\nlet = = ;\n'
    found = find_alterations("a.js", source, ["adds"])["adds"]
    assert found[0].kind is AlterationKind.LITERAL


def test_an_alteration_after_which_the_file_cannot_be_read_is_left_out() -> None:
    tree = parse_source(b"adds(1);\nadds(2);\nadds(3);\n", JAVASCRIPT)
    assert tree is not None
    proposer = Proposer(tree)
    statements = tree.root.named_children

    def propose() -> list[ProposedChange]:
        made = [("adds(4);", 0), ("adds(;", 1), ("adds(5);", 2)]
        return [proposer.replaced(AlterationKind.LITERAL, statements[n], statements[n], text) for text, n in made]

    found = alterations_of_blocks("a.js", tree, ["adds"], [TestBlock(TestName(("adds",)), propose)])
    assert [one.altered for one in found["adds"]] == ["adds(4);", "adds(5);"]


def test_what_holds_tests_is_altered_with_them() -> None:
    source = """
describe("sums", () => {
  it("adds", () => { assert.equal(sum(1, 2), 3); });
});
"""
    found = concerned("a.js", source, ["sums > adds", "sums"])
    assert found == {"sums > adds": {("sums > adds", "sums")}, "sums": {("sums > adds", "sums")}}
