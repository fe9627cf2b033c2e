"""How many of the tests of core's Python tasks have an altered twin that the oracle fails at the altered lines.

Each round alters one candidate of every test that has no such twin yet, all in one run of the oracle.
"""

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from proctor.grading.controls import Alteration, alter, altered_lines, find_alterations

INSTANCES = Path(__file__).parents[1] / "src/proctor/suites/core/instances"
# Runs inside the tree of a task and prints, for each failed test, the lines of its traceback in each file.
RUNNER = """
import json, sys, traceback, unittest
from pathlib import Path
here = Path.cwd()
found = {}
class Result(unittest.TestResult):
    def _note(self, test, error):
        lines = [[str(Path(f.filename).relative_to(here)), f.lineno] for f in traceback.extract_tb(error[2])
                 if Path(f.filename).is_relative_to(here)]
        found.setdefault(test.id(), []).extend(lines)
    def addError(self, test, error):
        self._note(test, error)
    def addFailure(self, test, error):
        self._note(test, error)
    def addSubTest(self, test, subtest, error):
        if error is not None:
            self._note(test, error)
suite = unittest.defaultTestLoader.discover("tests", top_level_dir=".")
suite.run(Result())
print("\\n" + json.dumps(found))
"""


def lay_out(instance: Path, tree: Path) -> None:
    shutil.copytree(instance / "repo", tree)
    shutil.copytree(instance / "hidden", tree, dirs_exist_ok=True)
    subprocess.run(["git", "apply", str(instance / "oracle.diff")], cwd=tree, check=True)


def run_tests(tree: Path) -> dict[str, list[tuple[str, int]]]:
    done = subprocess.run(
        [sys.executable, "-B", "-W", "ignore", "-c", RUNNER],
        cwd=tree,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    if done.returncode != 0:
        raise SystemExit(f"{tree.name}: the altered tests cannot be run: {done.stderr[-2000:]}")
    return {
        test: [(path, line) for path, line in lines] for test, lines in json.loads(done.stdout.splitlines()[-1]).items()
    }


def proved(tree: Path, tests: list[str], rounds: int) -> dict[str, tuple[int, Alteration]]:
    """For each test that has one, the first candidate that the oracle fails, and its round."""
    sources = {path.relative_to(tree).as_posix(): path.read_bytes() for path in sorted(tree.glob("tests/**/*.py"))}
    candidates: dict[str, tuple[Alteration, ...]] = {}
    for path, source in sources.items():
        candidates |= find_alterations(path, source, tests)
    found: dict[str, tuple[int, Alteration]] = {}
    for number in range(rounds):
        chosen: dict[str, list[Alteration]] = {}
        for test in tests:
            if test not in found and number < len(candidates.get(test, ())):
                one = candidates[test][number]
                if one not in chosen.setdefault(one.path, []):
                    chosen[one.path].append(one)
        if not any(chosen.values()):
            break
        for path, source in sources.items():
            (tree / path).write_bytes(alter(source, chosen.get(path, [])))
        failed = run_tests(tree)
        for path, alterations in chosen.items():
            for one in alterations:
                lines = altered_lines(sources[path], alterations, one)
                for test in one.tests:
                    if test not in found and any(at == path and line in lines for at, line in failed.get(test, [])):
                        found[test] = (number, one)
        for path, source in sources.items():
            (tree / path).write_bytes(source)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--verbose", action="store_true")
    asked = parser.parse_args()
    totals: dict[str, list[int]] = {"fail_to_pass": [0, 0, 0, 0], "pass_to_pass": [0, 0, 0, 0]}
    kinds: dict[str, int] = {}
    with tempfile.TemporaryDirectory() as scratch:
        for instance in sorted(INSTANCES.glob("py_*")):
            exam: dict[str, Any] = json.loads((instance / "instance.json").read_bytes())["eval"]
            tree = Path(scratch) / instance.name
            lay_out(instance, tree)
            found = proved(tree, [*exam["fail_to_pass"], *exam["pass_to_pass"]], asked.rounds)
            for group, counts in totals.items():
                tests = exam[group]
                counts[0] += len(tests)
                counts[1] += sum(test in found for test in tests)
                counts[2] += sum(test in found and found[test][0] == 0 for test in tests)
                counts[3] += sum(test in found and found[test][1].kind == "statement" for test in tests)
                for test in tests:
                    if test not in found:
                        print(f"no twin: {instance.name} {test}")
                    else:
                        kinds[found[test][1].kind] = kinds.get(found[test][1].kind, 0) + 1
                        if asked.verbose and (found[test][0] > 0 or found[test][1].kind == "statement"):
                            print(f"round {found[test][0]}: {instance.name} {test}: {found[test][1].altered}")
    for group, (tests_there, with_twin, at_once, statements) in totals.items():
        print(f"{group}: {with_twin} of {tests_there} have a twin, {at_once} at once, {statements} by a statement")
    print("kinds:", ", ".join(f"{kind} {count}" for kind, count in sorted(kinds.items())))


if __name__ == "__main__":
    main()
