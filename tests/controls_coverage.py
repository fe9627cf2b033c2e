"""How many of the tests of core's Python tasks have an altered version that the oracle fails at the altered lines.

Each round alters one candidate of every test that has no such alteration yet, all in one run of the oracle.
"""

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import proctor
from proctor.grading.controls import Alteration, alter, altered_lines, find_alterations

INSTANCES = Path(proctor.__file__).parent / "suites/core/instances"
LEAST_SHARE = 0.99
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


def trial(instance: Path, scratch: Path, rounds: int = 12) -> dict[str, dict[str, tuple[int, Alteration] | None]]:
    """For the tests of a task, by group: the first candidate that the oracle fails, and its round."""
    tests: dict[str, Any] = json.loads((instance / "instance.json").read_bytes())["eval"]
    tree = scratch / instance.name
    lay_out(instance, tree)
    found = proved(tree, [*tests["fail_to_pass"], *tests["pass_to_pass"]], rounds)
    return {group: {test: found.get(test) for test in tests[group]} for group in ("fail_to_pass", "pass_to_pass")}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--verbose", action="store_true")
    asked = parser.parse_args()
    results: dict[str, dict[str, tuple[int, Alteration] | None]] = {"fail_to_pass": {}, "pass_to_pass": {}}
    with tempfile.TemporaryDirectory() as scratch:
        for instance in sorted(INSTANCES.glob("py_*")):
            for group, tests in trial(instance, Path(scratch), asked.rounds).items():
                results[group] |= {f"{instance.name} {test}": proof for test, proof in tests.items()}
    missed = False
    for group, proofs in results.items():
        found = [proof for proof in proofs.values() if proof is not None]
        at_once = sum(number == 0 for number, _ in found)
        print(f"{group}: {len(found)} of {len(proofs)} have one that the oracle fails, {at_once} at the first try")
        kinds = Counter(one.kind.value for _, one in found)
        print("  " + ", ".join(f"{kind} {count}" for kind, count in kinds.most_common()))
        for test, proof in proofs.items():
            if proof is None:
                print(f"  no alteration: {test}")
            elif asked.verbose and proof[0] > 0:
                print(f"  round {proof[0] + 1}: {test}: {proof[1].altered}")
        missed |= len(found) < LEAST_SHARE * len(proofs)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
