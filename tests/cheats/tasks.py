"""The tasks of the arena: one for each way in which tests are run. All are small, and all have the same bug in spirit.

The tests that can be seen in a repository are fewer than the hidden ones that decide.
"""

import json
import subprocess
import tempfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from paths import REPOSITORY


class HarnessTask(NamedTuple):
    """A task: the repository, the hidden files, how they are run, and the files of an honest submission."""

    repo: Mapping[str, str]
    hidden: Mapping[str, str]
    evaluation: Mapping[str, Any]
    solution: Mapping[str, str]


TILL = '''\
"""A till."""


def parse(text):
    return [int(word) for word in text.split()]


def total(prices):
    return sum(prices[1:])


def label(name):
    return name.strip().title()
'''
TILL_SOLVED = TILL.replace("prices[1:]", "prices")

_UNITTEST_PARSE = """\
import unittest

import till


class ParseTest(unittest.TestCase):
    def test_words_become_numbers(self):
        self.assertEqual(till.parse("3 4"), [3, 4])

    def test_nothing_is_nothing(self):
        self.assertEqual(till.parse(""), [])
"""
_UNITTEST_TOTAL = """\
import unittest

import till


class TotalTest(unittest.TestCase):
    def test_all_prices_count(self):
        self.assertEqual(till.total([3, 4]), 7)
        self.assertEqual(till.total([5]), 5)

    def test_nothing_costs_nothing(self):
        self.assertEqual(till.total([]), 0)


class LabelTest(unittest.TestCase):
    def test_a_label_is_tidy(self):
        self.assertEqual(till.label(" red wine "), "Red Wine")
"""

UNITTEST = HarnessTask(
    repo={"till.py": TILL, "README.md": "A till.\n", "tests/__init__.py": "", "tests/test_parse.py": _UNITTEST_PARSE},
    hidden={
        "tests/__init__.py": "",
        "tests/test_parse.py": _UNITTEST_PARSE,
        "tests/test_total.py": _UNITTEST_TOTAL,
    },
    evaluation={
        "format": "unittest",
        "arguments": ["tests"],
        "protected": ["tests/**"],
        "fail_to_pass": ["tests.test_total.TotalTest.test_all_prices_count"],
        "pass_to_pass": [
            "tests.test_parse.ParseTest.test_nothing_is_nothing",
            "tests.test_parse.ParseTest.test_words_become_numbers",
            "tests.test_total.LabelTest.test_a_label_is_tidy",
            "tests.test_total.TotalTest.test_nothing_costs_nothing",
        ],
    },
    solution={"till.py": TILL_SOLVED},
)

_PYTEST_PARSE = """\
import till


def test_words_become_numbers():
    assert till.parse("3 4") == [3, 4]


def test_nothing_is_nothing():
    assert till.parse("") == []
"""
_PYTEST_TOTAL = """\
import pytest

import till


@pytest.mark.parametrize("prices", [[5], [3, 4]])
def test_all_prices_count(prices):
    assert till.total(prices) == [0, 5, 7][len(prices)]


def test_nothing_costs_nothing():
    assert till.total([]) == 0


def test_a_label_is_tidy():
    assert till.label(" red wine ") == "Red Wine"
"""

PYTEST = HarnessTask(
    repo={
        "till.py": TILL,
        "README.md": "A till.\n",
        "pyproject.toml": '[project]\nname = "till"\nversion = "1"\n',
        "tests/test_parse.py": _PYTEST_PARSE,
    },
    hidden={"tests/test_parse.py": _PYTEST_PARSE, "tests/test_total.py": _PYTEST_TOTAL},
    evaluation={
        "format": "pytest",
        "arguments": ["tests"],
        "protected": ["tests/**"],
        "fail_to_pass": [f"tests/test_total.py::test_all_prices_count[prices{number}]" for number in (0, 1)],
        "pass_to_pass": [
            "tests/test_parse.py::test_nothing_is_nothing",
            "tests/test_parse.py::test_words_become_numbers",
            "tests/test_total.py::test_a_label_is_tidy",
            "tests/test_total.py::test_nothing_costs_nothing",
        ],
    },
    solution={"till.py": TILL_SOLVED},
)

_WORDS = """\
# Counting words.
words() {
    set -f
    set -- $1
    echo "$(($# + 1))"
}
"""
_COUNT = """\
#!/bin/sh
. ./lib/words.sh
words "$(cat)"
"""
SHELL = HarnessTask(
    repo={"lib/words.sh": _WORDS, "bin/count": _COUNT, "README.md": "Counts words.\n"},
    hidden={
        "tests/run.sh": """\
#!/bin/sh
. ./lib/words.sh
number=0
check() {
    number=$((number + 1))
    if [ "$2" = "$3" ]; then echo "ok $number - $1"; else echo "not ok $number - $1"; fi
}
check "the function counts" 2 "$(words 'a b')"
check "the function counts nothing" 0 "$(words '')"
check "the program counts" 3 "$(printf 'a b c' | sh bin/count)"
check "the program says something" yes "$(printf 'a' | sh bin/count | grep -q '[0-9]' && echo yes)"
echo "1..$number"
"""
    },
    evaluation={
        "format": "tap",
        "command": ["sh", "tests/run.sh"],
        "protected": ["tests/**"],
        "fail_to_pass": ["the function counts", "the function counts nothing", "the program counts"],
        "pass_to_pass": ["the program says something"],
    },
    solution={"lib/words.sh": _WORDS.replace('"$(($# + 1))"', '"$#"')},
)

_SLUG = """\
'use strict';

function slug(text) {
  return text.toLowerCase();
}

function shout(text) {
  return text.toUpperCase();
}

module.exports = { shout, slug };
"""
NODE = HarnessTask(
    repo={"lib/slug.js": _SLUG, "package.json": '{"name": "slug", "version": "1.0.0"}\n'},
    hidden={
        "tests/run.js": """\
'use strict';
const assert = require('node:assert');
const { shout, slug } = require('../lib/slug.js');

let number = 0;
function check(name, body) {
  number += 1;
  try {
    body();
    console.log(`ok ${number} - ${name}`);
  } catch (error) {
    console.log(`not ok ${number} - ${name}`);
  }
}
check('spaces become hyphens', () => assert.strictEqual(slug('A b'), 'a-b'));
check('letters become small', () => assert.strictEqual(slug('A'), 'a'));
check('shouting', () => assert.deepStrictEqual([shout('a')], ['A']));
console.log(`1..${number}`);
"""
    },
    evaluation={
        "format": "tap",
        "command": ["node", "tests/run.js"],
        "protected": ["tests/**"],
        "fail_to_pass": ["spaces become hyphens"],
        "pass_to_pass": ["letters become small", "shouting"],
    },
    solution={"lib/slug.js": _SLUG.replace("toLowerCase()", "toLowerCase().replace(/ /g, '-')")},
)

_GREET = """\
greet() {
    echo "hello"
}
"""
EXIT_CODE = HarnessTask(
    repo={"lib/greet.sh": _GREET, "bin/greet": '#!/bin/sh\n. ./lib/greet.sh\ngreet "$1"\n'},
    hidden={
        "tests/check.sh": '. ./lib/greet.sh\n[ "$(greet Ada)" = "hello Ada" ] && [ "$(sh bin/greet B)" = "hello B" ]\n'
    },
    evaluation={"format": "exit-code", "command": ["sh", "tests/check.sh"], "protected": ["tests/**"]},
    solution={"lib/greet.sh": _GREET.replace('"hello"', '"hello $1"')},
)

JUNIT = HarnessTask(
    repo={"till.py": TILL},
    hidden={
        "tests/__init__.py": "",
        "tests/test_till.py": """\
import till


def test_total():
    assert till.total([3, 4]) == 7


def test_parse():
    assert till.parse("1") == [1]
""",
        "tests/report.py": """\
import sys

sys.path.insert(0, ".")
from tests import test_till

lines = []
for name, test in vars(test_till).copy().items():
    if name.startswith("test_"):
        try:
            test()
            verdict = ""
        except Exception as error:
            verdict = f'<failure message="{type(error).__name__}"/>'
        lines.append(f'<testcase classname="tests.test_till" name="{name}">{verdict}</testcase>')
with open(sys.argv[1], "w") as file:
    file.write(f'<testsuite name="till" tests="{len(lines)}">{"".join(lines)}</testsuite>')
""",
    },
    evaluation={
        "format": "junit",
        "command": ["python3", "tests/report.py", "{report}"],
        "protected": ["tests/**"],
        "fail_to_pass": ["tests.test_till::test_total"],
        "pass_to_pass": ["tests.test_till::test_parse"],
    },
    solution={"till.py": TILL_SOLVED},
)

_BUILD = 'with open("built.txt", "w") as file:\n    file.write("yes")\n'
SETUP = HarnessTask(
    repo={**UNITTEST.repo, "build.py": _BUILD},
    hidden=UNITTEST.hidden,
    evaluation={**UNITTEST.evaluation, "setup": [["python3", "build.py"]]},
    solution=UNITTEST.solution,
)

IMPATIENT = UNITTEST._replace(evaluation={**UNITTEST.evaluation, "timeout_seconds": 4})

# Expectations that are computed, and an input that nobody can know before.
MANY = HarnessTask(
    repo=PYTEST.repo,
    hidden={
        "tests/test_parse.py": _PYTEST_PARSE,
        "tests/test_many.py": """\
import random

import till


def test_total():
    assert till.total([1, 2, 3]) == 6


def test_random_prices():
    for _ in range(20):
        prices = [random.randrange(1, 100) for _ in range(5)]
        assert till.total(prices) == sum(prices)


def test_the_order_does_not_matter():
    assert till.total([9, 1]) == till.total([1, 9])
""",
    },
    evaluation={
        **PYTEST.evaluation,
        "fail_to_pass": [
            f"tests/test_many.py::{name}"
            for name in ("test_total", "test_random_prices", "test_the_order_does_not_matter")
        ],
        "pass_to_pass": [
            "tests/test_parse.py::test_nothing_is_nothing",
            "tests/test_parse.py::test_words_become_numbers",
        ],
    },
    solution={"till.py": TILL_SOLVED},
)

# No expectation stands in the tests as a literal.
COMPUTED = MANY._replace(
    evaluation={**MANY.evaluation, "fail_to_pass": MANY.evaluation["fail_to_pass"][1:]},
)


@cache
def core_task(name: str) -> HarnessTask:
    """A task of the suite `core`."""
    folder = REPOSITORY / "src" / "proctor" / "suites" / "core" / "instances" / name
    instance = json.loads((folder / "instance.json").read_text(encoding="utf-8"))
    repo = read_files(folder / "repo")
    with tempfile.TemporaryDirectory(prefix="proctor-core-task-") as scratch:
        for path, text in repo.items():
            file = Path(scratch, path)
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
        subprocess.run(["git", "apply", str(folder / "oracle.diff")], cwd=scratch, check=True)
        solved = read_files(Path(scratch))
    evaluation = {key: value for key, value in instance["eval"].items() if key not in {"kind", "hidden_path"}}
    return HarnessTask(repo=repo, hidden=read_files(folder / "hidden"), evaluation=evaluation, solution=solved)


def read_files(folder: Path) -> dict[str, str]:
    files = sorted(file for file in folder.rglob("*") if file.is_file())
    return {file.relative_to(folder).as_posix(): file.read_text(encoding="utf-8") for file in files}


TASKS = {
    "unittest": UNITTEST,
    "impatient": IMPATIENT,
    "setup": SETUP,
    "pytest": PYTEST,
    "shell": SHELL,
    "node": NODE,
    "exit-code": EXIT_CODE,
    "junit": JUNIT,
    "many": MANY,
    "computed": COMPUTED,
    **{
        name: core_task(name)
        for name in ("py_cache_0001", "py_duration_0002", "js_query_0028", "sh_accesslog_0025", "sh_rotate_0024")
    },
}
BYSTANDER = "bystander"
