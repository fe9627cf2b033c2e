import ast
import gc
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from proctor.grading.audit.python_code import parse_python


def test_lines_are_counted_from_the_first() -> None:
    tree = parse_python("a\nb", first_line=7)
    assert tree is not None
    assert [node.lineno for node in tree.body] == [7, 8]


@pytest.mark.parametrize("source", ["def", "x = \0", "(" * 300 + ")" * 300, "-" * 100_000 + "1"])
def test_a_file_that_is_not_python_has_no_syntax_tree(source: str) -> None:
    assert parse_python(source) is None


def test_many_programs_can_be_read_at_once() -> None:
    """With threads that take turns often, and rubbish whose collection lets them, Python's own parser fails here."""
    source = f"x = {'[' * 60}1{']' * 60}\n" * 40

    class Rubbish:
        def __init__(self) -> None:
            self.itself = self

        def __del__(self) -> None:
            sum(range(10))

    def read(_: int) -> ast.Module | None:
        Rubbish()
        return parse_python(source)

    before, thresholds = sys.getswitchinterval(), gc.get_threshold()
    sys.setswitchinterval(1e-6)
    gc.set_threshold(50)
    try:
        with ThreadPoolExecutor(6) as threads:
            assert None not in list(threads.map(read, range(60)))
    finally:
        sys.setswitchinterval(before)
        gc.set_threshold(*thresholds)
