"""Reads the text of a program that somebody else wrote."""

import ast
import threading
import warnings
from typing import Final

# Submissions are read in threads, and neither Python's parser (which may then raise SystemError, at least in 3.11) nor
# its warnings are made for two at once.
_ONE_AT_A_TIME: Final = threading.Lock()


def parse_python(source: str, first_line: int = 1) -> ast.Module | None:
    """The syntax tree of some Python, whose first line has this number; None when it is no Python."""
    try:
        with _ONE_AT_A_TIME, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a stranger's invalid escape is no warning of ours
            tree = ast.parse(source)
        ast.increment_lineno(tree, first_line - 1)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    return tree
