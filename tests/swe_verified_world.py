"""Instances in the shape of SWE-bench's rows, and predictions of every kind to them."""

import textwrap
from pathlib import Path
from typing import Any

from swe_world import Repository, make_image

# One instance for each: which parser reads its tests' output.
PARSERS = {
    "gold": "parse_log_pytest",
    "gold_django": "parse_log_django",
    "empty": "parse_log_requests",
    "wrong": "parse_log_sympy",
    "non_applying": "parse_log_astropy",
    "breaking": "parse_log_matplotlib",
    "flaky": "parse_log_xarray",
    "hanging": "parse_log_pytest",
    "conftest": "parse_log_flask",
    "fuzzy": "parse_log_seaborn",
    "printing": "parse_log_pytest",
}
_BUGGY = """\
    # Numbers.


    def double(number):
        return number + number


    def triple(number):
        return number + number


    # The end.
"""
_FIXED = _BUGGY.replace(
    "def triple(number):\n        return number + number", "def triple(number):\n        return 3 * number"
)
_TESTS = """\
    from calc.{name} import double


    def test_double():
        assert double(2) == 4
"""
_MORE = """\
    from calc.{name} import double, triple


    def test_double():
        assert double(2) == 4


    def test_triple():
        assert triple(2) == 6
"""
# Prints as Django's and SymPy's own test programs do.
_RUNNER = """\
    import importlib, sys

    form, name = sys.argv[1:]
    tests = importlib.import_module("tests." + name)
    words = {"django": ("ok", "FAIL"), "sympy": ("ok", "F")}[form]
    failed = 0
    for test in sorted(vars(tests)):
        if test.startswith("test_"):
            try:
                getattr(tests, test)()
                word = words[0]
            except AssertionError:
                word, failed = words[1], 1
            print(f"{test} (tests.{name}) ... {word}" if form == "django" else f"{test} {word}")
    sys.exit(failed)
"""
_CHEAT = """\
    import pytest


    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_makereport(item, call):
        outcome = yield
        outcome.get_result().outcome = "passed"
"""
# Prints what pytest would, where pytest's own output goes, and ends the process before it can say otherwise.
_PRINTS = """\
    import os

    for line in (b"PASSED tests/test_printing.py::test_triple", b"PASSED tests/test_printing.py::test_double"):
        for place in range(3, 24):
            try:
                os.write(place, b"\\n" + line + b"\\n")
            except OSError:
                pass
    os._exit(0)
"""


class VerifiedWorld:
    """Rows, an image, and one answer for each row."""

    def __init__(self, folder: Path, base_image: str) -> None:
        base = {".gitignore": "node_modules/\n", "calc/__init__.py": "", "tests/__init__.py": "", "runner.py": _RUNNER}
        base |= {f"calc/{name}.py": _BUGGY for name in PARSERS}
        base |= {f"tests/test_{name}.py": _TESTS.format(name=name) for name in PARSERS}
        future = {f"calc/{name}.py": _FIXED for name in PARSERS}
        self.repository = Repository(folder, past={"README.md": "Calc.\n"}, base=base, future=future)
        self.image = make_image(folder, _dockerfile(base_image), repository=self.repository)
        self.rows = {name: self._row(name, parser) for name, parser in PARSERS.items()}

    def patch(self, name: str) -> str:
        """The answer that this row's name speaks of."""
        return {
            "empty": "",
            "wrong": self._changed(name, "return 4 * number"),
            "non_applying": self._changed(name, "return 3 * number").replace("number", "letter"),
            "breaking": self.repository.patch(
                {f"calc/{name}.py": _FIXED.replace("number + number", "2 ** number + 1")}
            ),
            "flaky": self._changed(
                name,
                "import pathlib; seen = pathlib.Path('/tmp/seen'); n = 3 if seen.exists() else 2; seen.touch(); "
                "return n * number",
            ),
            "hanging": self._changed(name, "import time; time.sleep(3600)"),
            "conftest": self.repository.patch({"conftest.py": _CHEAT}),
            "printing": self.repository.patch({f"calc/{name}.py": _PRINTS + _BUGGY}),
            "fuzzy": self._changed(name, "return 3 * number").replace(" # The end.", " # An end."),
        }.get(name, str(self.rows[name]["patch"]))

    def _changed(self, name: str, line: str) -> str:
        return self.repository.patch({f"calc/{name}.py": _FIXED.replace("return 3 * number", line)})

    def _row(self, name: str, parser: str) -> dict[str, Any]:
        tests = {f"tests/test_{name}.py": _MORE.format(name=name)}
        identity = f"calc__{name}-1"
        labels = [f"tests/test_{name}.py::test_triple"], [f"tests/test_{name}.py::test_double"]
        if parser == "parse_log_django":
            labels = [f"test_triple (tests.test_{name})"], [f"test_double (tests.test_{name})"]
        if parser == "parse_log_sympy":
            labels = ["test_triple"], ["test_double"]
        test_patch = self.repository.patch(tests)
        return {
            "repo": "calc/calc",
            "instance_id": identity,
            "base_commit": self.repository.base_commit,
            "patch": self.repository.patch({f"calc/{name}.py": _FIXED}),
            "test_patch": test_patch,
            "problem_statement": "triple() doubles.\r\nIt should not.",
            "hints_text": "three times",
            "created_at": "2024-01-02T00:00:00Z",
            "version": "1.0",
            "FAIL_TO_PASS": str(labels[0]).replace("'", '"'),
            "PASS_TO_PASS": str(labels[1]).replace("'", '"'),
            "environment_setup_commit": self.repository.base_commit,
            "difficulty": "<15 min fix",
            "eval_script": _eval_script(self.repository.base_commit, name, parser, test_patch),
            "log_parser": parser,
            "eval_type": "pass_and_fail",
            "image": self.image,
        }


def _dockerfile(base_image: str) -> str:
    return (
        f"FROM {base_image}\n"
        "COPY stages /stages\n"
        "RUN sh /stages/make.sh /stages /testbed && rm -rf /stages"
        " && mkdir /testbed/node_modules && echo large > /testbed/node_modules/large.js"
        " && git -C /testbed -c user.name=S -c user.email=s@localhost commit --quiet --allow-empty -m SWE-bench\n"
        "WORKDIR /testbed\n"
    )


def _eval_script(base: str, name: str, parser: str, test_patch: str) -> str:
    command = {
        "parse_log_django": f"python runner.py django test_{name}",
        "parse_log_sympy": f"python runner.py sympy test_{name}",
        "parse_log_seaborn": f"pytest -v -rA tests/test_{name}.py",
    }.get(parser, f"pytest -rA tests/test_{name}.py")
    head = f"""\
        #!/bin/bash
        set -uxo pipefail
        source /opt/miniconda3/bin/activate
        conda activate testbed
        cd /testbed
        git config --global --add safe.directory /testbed
        cd /testbed
        git status
        git show
        git -c core.fileMode=false diff {base}
        git checkout {base} tests/test_{name}.py
        git apply -v - <<'EOF_114329324912'
        """
    tail = f"""\
        EOF_114329324912
        : '>>>>> Start Test Output'
        {command}
        : '>>>>> End Test Output'
        git checkout {base} tests/test_{name}.py
        """
    return textwrap.dedent(head) + test_patch + textwrap.dedent(tail)
