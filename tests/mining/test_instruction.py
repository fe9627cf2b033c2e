"""What the agent is asked to do, without the change itself."""

from proctor.mining.history import HistoryChange
from proctor.mining.instruction import diff_words, make_instruction, scrub
from proctor.mining.issues import Issue
from suite_world import diff

ORACLE = diff_words(
    diff("calc.py", "def add(a, b):\n    return a - b\n", "def add(a, b):\n    return sum_exactly(a, b)\n").encode()
)


def change(message: str) -> HistoryChange:
    day = "2026-03-01T00:00:00Z"
    return HistoryChange(
        commit="c" * 40,
        parent="p" * 40,
        parents=1,
        authored_at=day,
        committed_at=day,
        author="A",
        email="e",
        message=message,
    )


def test_a_message_loses_trailers_numbers_hashes_and_links_to_the_change() -> None:
    text = scrub(
        "Fix sums (#12)\n\nSums are wrong, see deadbeef12 and https://github.com/a/b/pull/12 for more.\n"
        "Fixes #9.\n\nCo-authored-by: B <b@example.com>",
        ORACLE,
        (),
    )
    assert text == "Fix sums\n\nSums are wrong, see  and  for more."


def test_lines_and_blocks_of_the_oracle_are_taken_out_and_other_code_stays() -> None:
    text = scrub(
        "Wrong sums.\n\n```diff\n-    return a - b\n```\n\n```python\nadd(2, 3)\n```\n\n    return sum_exactly(a, b)\n",
        ORACLE,
        (),
    )
    assert text == "Wrong sums.\n\n```python\nadd(2, 3)\n```"


def test_sentences_with_names_that_only_the_fix_has_are_taken_out() -> None:
    message = "Sums of negative numbers are wrong. Use sum_exactly for them. Zero works."
    made = make_instruction(change(message), None, ORACLE, fix_only={"sum_exactly"})
    assert made.text == "Sums of negative numbers are wrong. Zero works.\n"
    assert made.source == "commit-message"


def test_an_issue_comes_before_the_message() -> None:
    issue = Issue(number="9", title="Wrong sums", body="2 + 3 gives -1.")
    made = make_instruction(change("Fix it"), issue, ORACLE, fix_only=())
    assert (made.text, made.source, made.issue) == ("Wrong sums\n\n2 + 3 gives -1.\n", "issue", "9")


def test_a_merge_that_says_nothing_itself_is_described_by_what_it_merges() -> None:
    made = make_instruction(
        change("Merge pull request #4 from ada/sums"),
        None,
        ORACLE,
        fix_only=(),
        merged="Sums of small numbers are right",
    )
    assert made.text == "Sums of small numbers are right\n"
