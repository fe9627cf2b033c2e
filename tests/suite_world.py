"""Small suites for tests, and how to run the command line on them."""

import json
import os
from pathlib import Path
from typing import Any

from cli_jobs import PATIENCE, Done, commands

BUGGY = "def add(a, b):\n    return a - b\n"
FIXED = "def add(a, b):\n    return a + b\n"
HIDDEN = """import unittest
from calc import add

class AddTest(unittest.TestCase):
    def test_sums(self):
        self.assertEqual(add(2, 3), 5)

    def test_zero(self):
        self.assertEqual(add(0, 0), 0)
"""
FAIL_TO_PASS = ["tests.test_calc.AddTest.test_sums"]
PASS_TO_PASS = ["tests.test_calc.AddTest.test_zero"]


def diff(path: str, old: str, new: str) -> str:
    """A unified diff that replaces all of a small file; an empty `old` makes it, an empty `new` deletes it."""
    before, after = old.splitlines(), new.splitlines()
    head = [f"diff --git a/{path} b/{path}"]
    head += ["new file mode 100644"] if not old else ["deleted file mode 100644"] if not new else []
    head += [f"--- {'a/' + path if old else '/dev/null'}", f"+++ {'b/' + path if new else '/dev/null'}"]
    start = (1 if before else 0, 1 if after else 0)
    head += [f"@@ -{start[0]},{len(before)} +{start[1]},{len(after)} @@"]
    return "\n".join([*head, *(f"-{line}" for line in before), *(f"+{line}" for line in after)]) + "\n"


SOLUTION = diff("calc.py", BUGGY, FIXED)


def make_instance(
    folder: Path, name: str = "one", *, hidden: str = HIDDEN, oracle: str = SOLUTION, **changes: Any
) -> None:
    """An instance whose `add` subtracts."""
    place = folder / "instances" / name
    (place / "repo" / "tests").mkdir(parents=True)
    (place / "repo" / "calc.py").write_text(BUGGY)
    (place / "repo" / "tests" / "__init__.py").touch()
    (place / "hidden" / "tests").mkdir(parents=True)
    (place / "hidden" / "tests" / "test_calc.py").write_text(hidden)
    (place / "issue.md").write_text("`add` gives wrong sums.")
    (place / "oracle.diff").write_text(oracle)
    tests: dict[str, Any] = {
        "kind": "tests",
        "format": "unittest",
        "arguments": ["tests"],
        "hidden_path": "hidden",
        "protected": ["tests/**"],
        "timeout_seconds": 60,
        "fail_to_pass": FAIL_TO_PASS,
        "pass_to_pass": PASS_TO_PASS,
        **changes.pop("eval", {}),
    }
    document = {
        "schema_version": "proctor.instance@1",
        "instance_id": name,
        "tags": ["bugfix"],
        "problem_statement_path": "issue.md",
        "repo_path": "repo",
        "eval": tests,
        "oracle": {"patch_kind": "unified-diff", "patch_path": "oracle.diff"},
        **changes,
    }
    (place / "instance.json").write_text(json.dumps(document))


def make_suite(folder: Path, *names: str, **defaults: Any) -> Path:
    """The suite file over instances that are already there."""
    refs = [{"id": name, "path": f"instances/{name}"} for name in names or ("one",)]
    document = {"schema_version": "proctor.suite@1", "suite_id": "mine", "instances": refs, "defaults": defaults}
    file = folder / "suite.json"
    file.write_text(json.dumps(document))
    return file


def predict(folder: Path, **patches: str) -> Path:
    """A predictions file with a diff for each instance."""
    file = folder / "predictions.jsonl"
    lines = [
        json.dumps({"instance_id": name, "patch_kind": "unified-diff", "patch_inline": patch, "model": "m"})
        for name, patch in patches.items()
    ]
    file.write_text("\n".join(lines))
    return file


def proctor(folder: Path, *arguments: str | Path, variables: dict[str, str] | None = None) -> Done:
    """Run the command line in `folder`, with a cache and results of its own there."""
    clean = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    env = {**clean, "PROCTOR_CACHE": str(folder / "cache"), **(variables or {})}
    return commands().start(*arguments, cwd=folder, env=env).wait_here(2 * PATIENCE)


def evaluate(folder: Path, suite: Path, *arguments: str | Path, **options: Any) -> tuple[int, dict[str, Any]]:
    """`bench eval --json`: its exit code and its report; without control checks, which other tests are about."""
    without = () if "--controls" in arguments else ("--controls", "0")
    done = proctor(folder, "bench", "eval", "--suite", suite, "--json", "--quiet", *without, *arguments, **options)
    assert done.stdout, done.stderr
    return done.code, json.loads(done.stdout)


def verdict(report: dict[str, Any], name: str = "one") -> tuple[str, str]:
    """Status and cause of one task."""
    found = next(task["verdict"] for task in report["tasks"] if task["task_id"] == name)
    return found["status"], found["cause"]
