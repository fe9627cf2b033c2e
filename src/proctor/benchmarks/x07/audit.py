"""The audit of a patch to x07 modules.

In x07's suites a test is often a function of the module that is to be fixed, so its body cannot be restored from the
pristine tree. A patch that removes the assertions passes, and the verdict carries a finding.
"""

import json
from typing import Any, Final

from proctor.core.verdict import Finding
from proctor.workspaces import TreeChange

ASSERTIONS_REMOVED: Final = "x07-assertions-removed"


def x07_findings(change: TreeChange) -> tuple[Finding, ...]:
    """Modules that lost assertions."""
    findings = []
    for path in sorted(path for path in change.before if path.endswith(".x07.json")):
        left = change.after.get(path)
        before, after = _assertions(change.before[path].data), _assertions(left.data) if left else 0
        if after < before:
            detail = f"calls that can fail a test: {before} before, {after} after"
            findings.append(Finding(code=ASSERTIONS_REMOVED, path=path, detail=detail))
    return tuple(findings)


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
