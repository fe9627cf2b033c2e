"""What smells in a patch to x07 modules, and which files it must not decide.

In x07's suites a test is a function of the module that is to be mended, so its body cannot be restored from the
pristine tree. A patch that takes the assertions out passes; nothing can prevent that, but it can be named.
"""

import json
from collections.abc import Mapping
from typing import Any, Final

from proctor.benchmarks.suites.format import X07Eval
from proctor.core.verdict import Finding

ASSERTIONS_REMOVED: Final = "x07-assertions-removed"


def x07_protected(tests: X07Eval) -> tuple[str, ...]:
    """The files that decide which tests run and what is expected of them; to be restored after the patch."""
    return (tests.manifest, tests.stdlib_lock)


def x07_findings(before: Mapping[str, bytes], after: Mapping[str, bytes]) -> tuple[Finding, ...]:
    """Modules that lost assertions, from the touched files' contents by path; a deleted file is not in `after`."""
    found = []
    for path in sorted(path for path in before if path.endswith(".x07.json")):
        had, has = _assertions(before[path]), _assertions(after.get(path, b"null"))
        if has < had:
            detail = f"calls that can fail a test: {had} before, {has} after"
            found.append(Finding(code=ASSERTIONS_REMOVED, path=path, detail=detail))
    return tuple(found)


def _assertions(data: bytes) -> int:
    """How many calls in a module can fail a test; none in what is not JSON."""
    try:
        waiting: list[Any] = [json.loads(data)]
    except (ValueError, RecursionError):
        return 0
    count = 0
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            waiting += value.values()
        elif isinstance(value, list):
            head = value[0] if value else None
            count += isinstance(head, str) and head.startswith(("std.test.assert_", "std.test.fail"))
            waiting += value
    return count
