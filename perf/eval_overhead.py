"""What `bench eval` costs beyond the work itself: trivial instances, against a shell loop that does the same.

    .venv/bin/python perf/eval_overhead.py [INSTANCES] [--growth]

Both copy the repository, run the tests (which must fail), apply the patch, and run the tests again, at the same
parallelism; first without control checks, then with one control pair for each instance, whose control sets were proved
before: there, both run the tests twice after the patch. The loop uses plain unittest and no isolation. Rounds are
interleaved, and the median of each is compared.
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

JOBS = 2
ROUNDS = 3
TARGET = 1.3
BUGGY = "def add(a, b):\n    return a - b\n"
TEST = """import unittest
from calc import add

class AddTest(unittest.TestCase):
    def test_sums(self):
        self.assertEqual(add(2, 3), 5)

    def test_larger_sums(self):
        self.assertEqual(add(20, 3), 23)

    def test_negative_sums(self):
        self.assertEqual(add(-2, -3), -5)

    def test_texts(self):
        self.assertEqual(add("a", "b"), "ab")
"""
TESTS = ("sums", "larger_sums", "negative_sums", "texts")
PATCH = """--- a/calc.py
+++ b/calc.py
@@ -1,2 +1,2 @@
 def add(a, b):
-    return a - b
+    return a + b
"""
LOOP = """
set -eu
PATH=/usr/local/bin:/usr/bin:/bin  # the same programs as in an environment
instance=$1
tree=$(mktemp -d)
cp -r "$instance/repo/." "$tree"
cp -r "$instance/hidden/." "$tree"
cd "$tree"
if python3 -B -m unittest discover -s tests -t . >/dev/null 2>&1; then echo "$instance: already green"; exit 1; fi
git apply --whitespace=nowarn "$instance/oracle.diff"
for _ in $(seq "$2"); do
  python3 -B -m unittest discover -s tests -t . >/dev/null 2>&1
done
rm -rf "$tree"
"""


def make_suite(folder: Path, count: int) -> Path:
    refs = []
    for number in range(count):
        name = f"i{number:04}"
        place = folder / "instances" / name
        (place / "repo").mkdir(parents=True)
        (place / "hidden" / "tests").mkdir(parents=True)
        (place / "repo" / "calc.py").write_text(BUGGY)
        (place / "hidden" / "tests" / "__init__.py").touch()
        (place / "hidden" / "tests" / "test_calc.py").write_text(TEST)
        (place / "issue.md").write_text("`add` is wrong.")
        (place / "oracle.diff").write_text(PATCH)
        tests = {
            "kind": "tests",
            "format": "unittest",
            "arguments": ["tests"],
            "hidden_path": "hidden",
            "fail_to_pass": [f"tests.test_calc.AddTest.test_{name}" for name in TESTS],
        }
        instance = {
            "schema_version": "proctor.instance@1",
            "instance_id": name,
            "problem_statement_path": "issue.md",
            "repo_path": "repo",
            "eval": tests,
            "oracle": {"patch_kind": "unified-diff", "patch_path": "oracle.diff"},
        }
        (place / "instance.json").write_text(json.dumps(instance))
        refs.append({"id": name, "path": f"instances/{name}"})
    suite = folder / "suite.json"
    suite.write_text(json.dumps({"schema_version": "proctor.suite@1", "suite_id": "trivial", "instances": refs}))
    return suite


def seconds(argv: list[str], folder: Path, stdin: bytes = b"") -> float:
    start = time.perf_counter()
    subprocess.run(argv, cwd=folder, input=stdin, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - start


def run_proctor(folder: Path, command: str, suite: Path, *options: str) -> float:
    argv = [sys.executable, "-m", "proctor", "bench", command, "--suite", str(suite), "--json", "--jobs", str(JOBS)]
    return seconds([*argv, *options], folder)


def ours(folder: Path, suite: Path, controls: int) -> float:
    """Verdicts and pre-patch runs are made anew; control sets are those that were proved before."""
    for name in ("evaluations", "pre_patch_runs"):
        shutil.rmtree(folder / "cache" / name, ignore_errors=True)
    return run_proctor(folder, "eval", suite, "--oracle", "--quiet", "--controls", str(controls))


def loop(folder: Path, suite: Path, runs: int) -> float:
    script = folder / "loop.sh"
    script.write_text(LOOP)
    lines = "\n".join(f"{place}\n{runs}" for place in sorted((suite.parent / "instances").iterdir())).encode()
    return seconds(["xargs", "-P", str(JOBS), "-n", "2", "bash", str(script)], folder, lines)


def compare(count: int, *, controls: int = 0) -> float:
    with tempfile.TemporaryDirectory(prefix="perf-eval-") as name:
        folder = Path(name)
        os.environ["PROCTOR_CACHE"] = str(folder / "cache")
        suite = make_suite(folder, count)
        if controls:
            run_proctor(folder, "validate", suite, "--quiet", "--controls", str(controls))
        pairs = [(ours(folder, suite, controls), loop(folder, suite, max(1, 2 * controls))) for _ in range(ROUNDS)]
    mine, theirs = (statistics.median(side) for side in zip(*pairs, strict=True))
    print(
        f"{count:5} instances, {'with' if controls else 'without'} controls   "
        f"proctor {mine:7.2f} s ({mine / count * 1000:5.1f} ms each)   "
        f"shell loop {theirs:7.2f} s ({theirs / count * 1000:5.1f} ms each)   {mine / theirs:.2f}x"
    )
    return mine / theirs


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("instances", type=int, nargs="?", default=200)
    parser.add_argument("--growth", action="store_true", help="how it grows with the number of instances, instead")
    asked = parser.parse_args()
    if asked.growth:
        for count in (50, 100, 200, 400, 800):
            compare(count)
        return 0
    ratios = [compare(asked.instances), compare(asked.instances, controls=1)]
    print(f"target: at most {TARGET}x: {'met' if max(ratios) <= TARGET else 'MISSED'}")
    return int(max(ratios) > TARGET)


if __name__ == "__main__":
    sys.exit(main())
