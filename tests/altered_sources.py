"""What finders make of small test files: the lines that an alteration changes, in the file as it is altered."""

from collections.abc import Sequence

from proctor.grading.controls import Alteration, alter, find_alterations


def changes(path: str, source: str, test: str, tests: Sequence[str] = ()) -> list[str]:
    """The changed lines of each alteration of a test, in the order in which they are to be tried.

    Each keeps the number of lines, and alters what it says it alters.
    """
    found = find_alterations(path, source.encode(), list(tests) or [test]).get(test, ())
    return [changed_lines(source, one) for one in found]


def changed_lines(source: str, one: Alteration) -> str:
    altered = alter(source.encode(), [one]).decode()
    assert altered.count("\n") == source.count("\n")
    assert one.original != one.altered
    before, after = source.split("\n"), altered.split("\n")
    numbers = [number for number, pair in enumerate(zip(before, after, strict=True)) if pair[0] != pair[1]]
    return "\n".join(after[number].strip() for number in numbers)


def concerned(path: str, source: str, tests: Sequence[str]) -> dict[str, set[tuple[str, ...]]]:
    """Which ids the alterations of each test concern."""
    found = find_alterations(path, source.encode(), list(tests))
    return {test: {one.tests for one in some} for test, some in found.items()}
