import subprocess
import sys

import pytest

from proctor.grading.controls import find_alterations
from proctor.grading.controls.languages import FINDERS, missing_grammar

CHECK = 'check "adds" "3" "$(sum 1 2)"\n'


@pytest.mark.parametrize(
    ("path", "source"),
    [
        ("tests/run.sh", CHECK),
        ("tests/run.bash", CHECK),
        ("tests/run", f"#!/bin/sh\n{CHECK}"),
        ("tests/run", f"#!/usr/bin/env bash\n{CHECK}"),
        ("t/adds.t", f"#!/usr/bin/env -S bash -e\n{CHECK}"),
    ],
)
def test_shell_is_known_by_name_or_by_first_line(path: str, source: str) -> None:
    assert find_alterations(path, source.encode(), ["adds"])["adds"]


@pytest.mark.parametrize(
    ("path", "source"),
    [
        ("tests/run", CHECK),
        ("t/adds.t", f"#!/usr/bin/perl\n{CHECK}"),
        ("tests/run.rb", CHECK),
    ],
)
def test_other_files_have_no_alterations(path: str, source: str) -> None:
    assert find_alterations(path, source.encode(), ["adds"]) == {}
    assert missing_grammar(path, source.encode()) is None


@pytest.mark.parametrize("suffix", [suffix for suffix in FINDERS if suffix != ".py"])
def test_files_that_are_no_text_or_no_code_have_none(suffix: str) -> None:
    for source in (b"", b"\0\xff", b"\xff\xfe", b"((((", b"}" * 50):
        assert find_alterations(f"tests/a{suffix}", source, ["adds"]) == {}


@pytest.mark.parametrize("suffix", [suffix for suffix in FINDERS if suffix != ".py"])
def test_installed_grammars_are_not_missing(suffix: str) -> None:
    assert missing_grammar(f"tests/a{suffix}", b"") is None


def test_without_the_extra_there_are_no_alterations_and_the_reason_says_what_to_install() -> None:
    program = """
import sys
sys.modules["tree_sitter"] = None  # as if it were not installed
from proctor.grading.controls import find_alterations
from proctor.grading.controls.languages import missing_grammar
source = b'test("adds", () => { assert.equal(sum(1, 2), 3); });'
print(find_alterations("tests/run.js", source, ["adds"]))
for path in ("tests/run.js", "a.ts", "a.tsx", "a_test.go", "a.rs", "ATest.java", "a.sh"):
    print(missing_grammar(path, source))
print(missing_grammar("a.py", b""))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == [
        "{}",
        *(
            f"there is no grammar of {language} here: pip install 'proctor[languages]'"
            for language in ("JavaScript", "TypeScript", "TypeScript", "Go", "Rust", "Java", "shell")
        ),
        "None",
    ]


def test_grammars_are_loaded_when_they_are_used() -> None:
    program = "import sys, proctor.grading.controls; print(any(name.startswith('tree_sitter') for name in sys.modules))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
