"""Alterations are made together where they do not overlap, and their lines are found again."""

from proctor.grading.controls import Alteration, AlterationKind, Edit, alter, altered_lines, overlap

SOURCE = b"one = 1\ntwo = 2\nthree = 3\n"


def change(line: int, *edits: Edit, path: str = "t.py") -> Alteration:
    return Alteration(
        path=path,
        tests=("t",),
        kind=AlterationKind.LITERAL,
        edits=edits,
        first_line=line,
        last_line=line,
        original="",
        altered="",
    )


def test_edits_of_several_alterations_do_not_move_each_other() -> None:
    one = change(1, Edit(start=6, end=7, text="100"))
    two = change(2, Edit(start=14, end=15, text=""))
    assert alter(SOURCE, [two, one]) == b"one = 100\ntwo = \nthree = 3\n"


def test_only_what_is_in_one_place_of_one_file_overlaps() -> None:
    one = change(1, Edit(start=4, end=8, text=""))
    assert overlap(one, change(1, Edit(start=7, end=9, text="")))
    assert overlap(one, change(1, Edit(start=4, end=5, text="")))
    assert not overlap(one, change(1, Edit(start=8, end=9, text="")))
    assert not overlap(one, change(1, Edit(start=4, end=8, text=""), path="u.py"))
    insertion = change(1, Edit(start=8, end=8, text="x"))
    assert not overlap(insertion, insertion)


def test_lines_that_others_insert_move_an_alteration() -> None:
    above = change(1, Edit(start=0, end=0, text="zero = 0\nhalf = 0.5\n"))
    below = change(3, Edit(start=24, end=25, text="4"))
    assert altered_lines(SOURCE, [above, below], below) == range(5, 6)
    assert altered_lines(SOURCE, [below], below) == range(3, 4)
