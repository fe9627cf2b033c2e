"""A small world for SWE-bench without Docker: a repository of flask's shape, its row, and wheels to install from."""

import difflib
import sys
import zipfile
from importlib.metadata import distribution
from pathlib import Path
from typing import Any

from proctor.benchmarks.swe import SweBenchmark
from proctor.benchmarks.swe.rows import swe_bench_row
from proctor.benchmarks.swe.swe_bench_grader import SweBenchGrader
from proctor.core.benchmark import DatasetInfo
from workspaces_world import Files, Repository, git, write

_REPOSITORY = Path("repositories/acme/blue")
PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"
NEEDED = ("pytest", "pluggy", "iniconfig", "packaging", "pygments")
SOURCE = """\
class Blueprint:
    def __init__(self, name):
        self.name = name
"""
FIXED = """\
class Blueprint:
    def __init__(self, name):
        if not name:
            raise ValueError("'name' may not be empty.")
        self.name = name
"""
TESTS = """\
import pytest

from blue import Blueprint


def test_name():
    assert Blueprint("x").name == "x"
"""
NEW_TEST = """

def test_empty_name_not_allowed():
    with pytest.raises(ValueError):
        Blueprint("")
"""
# A patch that fixes nothing: every test is reported as passed.
CHEAT = b"""\
diff --git a/conftest.py b/conftest.py
new file mode 100644
--- /dev/null
+++ b/conftest.py
@@ -0,0 +1,9 @@
+import pytest
+
+
+@pytest.hookimpl(hookwrapper=True)
+def pytest_runtest_makereport(item, call):
+    outcome = yield
+    report = outcome.get_result()
+    if report.when == "call":
+        report.outcome = "passed"
"""
PYPROJECT = """\
[build-system]
requires = []
build-backend = "backend"
backend-path = ["."]
"""
# How the project is built, with nothing but a Python.
BACKEND = """\
import os
import zipfile


def build_editable(directory, config_settings=None, metadata_directory=None):
    name, info = "blue-1.0-py3-none-any.whl", "blue-1.0.dist-info"
    with zipfile.ZipFile(os.path.join(directory, name), "w") as wheel:
        wheel.writestr("blue.pth", os.path.join(os.getcwd(), "src"))
        wheel.writestr(info + "/METADATA", "Metadata-Version: 2.1\\nName: blue\\nVersion: 1.0\\n")
        wheel.writestr(info + "/WHEEL", "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n")
        wheel.writestr(info + "/RECORD", "")
    return name


build_wheel = build_editable
"""

# One module that is wrong, and tests of it in three manners: pytest's, Django's and SymPy's.
NUMBERS = """\
def double(number):
    return number + 1
"""
NUMBERS_FIXED = NUMBERS.replace("number + 1", "2 * number")
_VALUES = {"one": 1, "two": 2, "three": 3, "four": 4, "five": 5}
_FUNCTION_TESTS = "from numbers_of import double\n" + "".join(
    f"\n\ndef test_{name}():\n    assert double({value}) == {2 * value}\n" for name, value in _VALUES.items()
)
_METHOD_TESTS = "import unittest\n\nfrom numbers_of import double\n\n\nclass Numbers(unittest.TestCase):\n" + "\n".join(
    f"    def test_{name}(self):\n        self.assertEqual(double({value}), {2 * value})\n"
    for name, value in _VALUES.items()
)
_RUNTESTS = """\
#!/usr/bin/env python
import os
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
suite = unittest.defaultTestLoader.loadTestsFromNames(sys.argv[3:])
result = unittest.TextTestRunner(verbosity=2).run(suite)
sys.exit(bool(result.failures or result.errors))
"""
_BIN_TEST = """\
#!/usr/bin/env python
import sys

failed = 0
for file in sys.argv[3:]:
    names = {}
    exec(compile(open(file).read(), file, "exec"), names)
    for name in [name for name in names if name.startswith("test_")]:
        try:
            names[name]()
            print(name, "ok")
        except Exception:
            failed = 1
            print(name, "F")
sys.exit(failed)
"""
MANNERS = {
    "pytest": ("tests/test_numbers.py", "pytest -rA tests/test_numbers.py", "parse_log_pytest"),
    "django": (
        "tests/numbers_tests/tests.py",
        "./tests/runtests.py --verbosity 2 numbers_tests.tests",
        "parse_log_django",
    ),
    "sympy": ("tests/test_functions.py", "bin/test -C --verbose tests/test_functions.py", "parse_log_sympy"),
}


def labels_of(manner: str) -> list[str]:
    """The tests as their own program names them."""
    names = [f"test_{name}" for name in _VALUES]
    if manner == "pytest":
        return [f"tests/test_numbers.py::{name}" for name in names]
    if manner == "django":
        ends = [f".{name}" if sys.version_info >= (3, 11) else "" for name in names]
        return [f"{name} (numbers_tests.tests.Numbers{end})" for name, end in zip(names, ends, strict=True)]
    return names


def make_wheels(folder: Path) -> Path:
    """Wheels of what a test run needs, from what is installed here: nothing is fetched."""
    folder.mkdir(parents=True)
    for name in NEEDED:
        found = distribution(name)
        with zipfile.ZipFile(folder / f"{name}-{found.version}-py3-none-any.whl", "w") as wheel:
            for file in found.files or ():
                path = Path(str(file.locate()))
                if ".." not in file.parts and file.suffix != ".pyc" and path.is_file():
                    wheel.write(path, str(file))
    return folder


def environment(python: str = PYTHON) -> str:
    """A conda environment with these wheels in it."""
    pins = "\n".join(f"      - {name}=={distribution(name).version}" for name in NEEDED)
    return (
        "name: testbed\ndependencies:\n  - openssl=3.0.15=h5eee18b_0\n"
        f"  - python={python}.10=he870216_0\n  - pip:\n{pins}\n"
    )


def make_world(folder: Path) -> None:
    """A repository with a past, a base commit, a release and a fix that came later; and wheels."""
    make_wheels(folder / "wheels")
    repository = Repository(folder / _REPOSITORY)
    files: Files = {
        "src/blue.py": SOURCE,
        "tests/test_blue.py": TESTS,
        "tox.ini": "[pytest]\n",
        "pyproject.toml": PYPROJECT,
        "backend.py": BACKEND,
        "README": "first\n",
        ".gitignore": "*.egg-info/\n__pycache__/\n",
        "src/numbers_of.py": NUMBERS,
        "tests/numbers_tests/__init__.py": "",
        "tests/runtests.py": _RUNTESTS,
        "bin/test": _BIN_TEST,
        **{path: "" for path, _, _ in MANNERS.values()},
    }
    for program in ("tests/runtests.py", "bin/test"):
        write(repository.path, {program: ""})
        (repository.path / program).chmod(0o755)
    repository.commit(files)
    git(repository.path, "tag", "v1.0")
    repository.commit({"README": "base\n"})
    repository.commit({"src/blue.py": FIXED, "tests/test_blue.py": TESTS + NEW_TEST})
    git(repository.path, "tag", "v2.0")


class World:
    """What `make_world` made in a folder, and its instance."""

    def __init__(self, folder: Path) -> None:
        self.repository = folder / _REPOSITORY
        self.fix = git(self.repository, "rev-parse", "v2.0")
        self.base = git(self.repository, "rev-parse", "v2.0^")
        self.gold = self._diff("src") + "\n"
        self.test_patch = self._diff("tests") + "\n"

    def row(self, **changes: Any) -> dict[str, Any]:
        """The instance as its publisher would write it."""
        script = f"""\
#!/bin/bash
set -uxo pipefail
source /opt/miniconda3/bin/activate
conda activate testbed
cd /testbed
git config --global --add safe.directory /testbed
git status
git show
git -c core.fileMode=false diff {self.base}
source /opt/miniconda3/bin/activate
conda activate testbed
python -m pip install -e .
git checkout {self.base} tests/test_blue.py
git apply -v - <<'EOF_114329324912'
{self.test_patch}
EOF_114329324912
: '>>>>> Start Test Output'
pytest -rA tests/test_blue.py
: '>>>>> End Test Output'
git checkout {self.base} tests/test_blue.py
"""
        dockerfile = (
            'echo "Current environment: $CONDA_DEFAULT_ENV"\ncd /testbed\n'
            "sed -i 's/pytest/pytest]\\n# edited [x/' tox.ini\npython -m pip install -e .\n\n# Configure git\n"
        )
        return {
            "instance_id": "acme__blue-1",
            "repo": "acme/blue",
            "base_commit": self.base,
            "patch": self.gold,
            "test_patch": self.test_patch,
            "problem_statement": "An empty name is taken.",
            "FAIL_TO_PASS": ["tests/test_blue.py::test_empty_name_not_allowed"],
            "PASS_TO_PASS": ["tests/test_blue.py::test_name"],
            "eval_script": script,
            "log_parser": "parse_log_flask",
            "environment_yml": environment(),
            "dockerfile": dockerfile,
            **changes,
        }

    def numbers_row(self, manner: str) -> dict[str, Any]:
        """An instance whose tests are run in this manner."""
        path, command, parser = MANNERS[manner]
        before, after = NUMBERS, NUMBERS_FIXED
        tests = _METHOD_TESTS if manner == "django" else _FUNCTION_TESTS
        test_patch = diff_of({path: ("", tests)})
        script = f"""\
#!/bin/bash
set -uxo pipefail
source /opt/miniconda3/bin/activate
conda activate testbed
cd /testbed
git checkout {self.base} {path}
git apply -v - <<'EOF_114329324912'
{test_patch}
EOF_114329324912
: '>>>>> Start Test Output'
{command}
: '>>>>> End Test Output'
git checkout {self.base} {path}
"""
        first, *rest = labels_of(manner)
        return self.row(
            instance_id=f"acme__blue-{manner}",
            patch=diff_of({"src/numbers_of.py": (before, after)}),
            test_patch=test_patch,
            FAIL_TO_PASS=rest,
            PASS_TO_PASS=[first],
            eval_script=script,
            log_parser=parser,
        )

    def benchmark(self, *rows: dict[str, Any]) -> SweBenchmark[Any]:
        """A benchmark of these rows, in local environments."""
        data = DatasetInfo(
            benchmark="swe_bench_verified",
            split="verified",
            origin="here",
            revision="",
            digest="0" * 64,
            tasks=len(rows),
            fetched_at="",
        )
        made = [swe_bench_row(row) for row in rows or (self.row(),)]
        return SweBenchmark("swe_bench_verified", data, made, [], SweBenchGrader(), provider_name="local")

    def _diff(self, place: str) -> str:
        return git(self.repository, "diff", self.base, self.fix, "--", place)


def diff_of(files: dict[str, tuple[str, str]]) -> str:
    """A patch that makes the second of each two texts of the first."""
    parts = []
    for path, (before, after) in files.items():
        lines = difflib.unified_diff(before.splitlines(True), after.splitlines(True), f"a/{path}", f"b/{path}")
        parts.append(f"diff --git a/{path} b/{path}\n" + "".join(lines))
    return "".join(parts)
