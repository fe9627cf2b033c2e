"""A small world for SWE-bench without Docker: a repository of flask's shape, its row, and wheels to install from."""

import sys
import zipfile
from importlib.metadata import distribution
from pathlib import Path
from typing import Any

from proctor.benchmarks.swe import SweBenchmark
from proctor.benchmarks.swe.rows import swe_bench_row
from proctor.benchmarks.swe.swe_bench_grader import SweBenchGrader
from proctor.core.benchmark import DatasetInfo
from workspaces_world import Files, Repository, git

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


class World:
    """A repository with a past, a base commit, a release and a fix that came later; and its instance."""

    def __init__(self, folder: Path) -> None:
        self.repository = Repository(folder / "repositories" / "acme" / "blue")
        files: Files = {
            "src/blue.py": SOURCE,
            "tests/test_blue.py": TESTS,
            "tox.ini": "[pytest]\n",
            "pyproject.toml": PYPROJECT,
            "backend.py": BACKEND,
            "README": "first\n",
            ".gitignore": "*.egg-info/\n__pycache__/\n",
        }
        self.repository.commit(files)
        git(self.repository.path, "tag", "v1.0")
        self.base = self.repository.commit({"README": "base\n"})
        self.fix = self.repository.commit({"src/blue.py": FIXED, "tests/test_blue.py": TESTS + NEW_TEST})
        git(self.repository.path, "tag", "v2.0")
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
        return git(self.repository.path, "diff", self.base, self.fix, "--", place)
