"""Repositories in several languages: each has a fix with a test, and becomes a task. Nothing is fetched."""

import json
import os
import shutil
from pathlib import Path

import pytest

from cli_jobs import commands
from mining_world import Repository

MESSAGE = (
    "Fix sums\n\nAdding two numbers gives their difference, so that every sum of two positive numbers is too small."
)

GO_TEST = """package calc

import "testing"

func TestAdd(t *testing.T) {
	if Add(2, 3) != 5 {
		t.Fatal("wrong sum")
	}
}

func TestZero(t *testing.T) {
	if Add(0, 0) != 0 {
		t.Fatal("wrong sum")
	}
}
"""
NODE_TEST = """import assert from 'node:assert';
import test from 'node:test';
import {add} from '../calc.js';

test('sums', () => { assert.equal(add(2, 3), 5); });
test('zero', () => { assert.equal(add(0, 0), 0); });
"""
RUST_TEST = """use calc::add;

#[test]
fn sums() {
    assert_eq!(add(2, 3), 5);
}

#[test]
fn zero() {
    assert_eq!(add(0, 0), 0);
}
"""
PACKAGE = {"name": "calc", "type": "module", "scripts": {"test": "node --test"}}
# The program, the files before, the file with the fault and its fix, the test file, and the test that is fixed.
JAVASCRIPT = "export const add = (a, b) => a {} b;\n"
GO = "package calc\n\nfunc Add(a, b int) int {{ return a {} b }}\n"
RUST = "pub fn add(a: i32, b: i32) -> i32 {{\n    a {} b\n}}\n"
MODULE = {"go.mod": "module example.com/calc\n\ngo 1.20\n"}
CRATE = {"Cargo.toml": '[package]\nname = "calc"\nversion = "0.1.0"\nedition = "2021"\n'}
LANGUAGES = {
    "node": (
        "node",
        {"package.json": json.dumps(PACKAGE)},
        "calc.js",
        JAVASCRIPT,
        "test/calc.test.js",
        NODE_TEST,
        "sums",
    ),
    "go": ("go", MODULE, "calc.go", GO, "calc_test.go", GO_TEST, "TestAdd"),
    "rust": ("cargo", CRATE, "src/lib.rs", RUST, "tests/sums.rs", RUST_TEST, "sums"),
}
# Compiling Go's standard library, and anything in Rust, takes longer than all other tests of mining.
COMPILED = {"go", "rust"}
CASES = [
    pytest.param(*case, id=name, marks=[pytest.mark.long, pytest.mark.timeout(1800)] if name in COMPILED else [])
    for name, case in LANGUAGES.items()
]


@pytest.mark.parametrize(("program", "files", "source", "text", "test_file", "test_text", "fixed"), CASES)
def test_a_fix_with_a_test_becomes_a_task(  # noqa: PLR0917 - a row of the table
    tmp_path: Path,
    program: str,
    files: dict[str, str],
    source: str,
    text: str,
    test_file: str,
    test_text: str,
    fixed: str,
) -> None:
    usual = os.pathsep.join([os.environ["PATH"], "/usr/local/go/bin", str(Path.home() / ".cargo/bin")])
    if shutil.which(program, path=usual) is None:
        pytest.skip(f"{program} is not on this machine")
    repository = Repository(tmp_path / "calc")
    repository.commit("Start", {**files, source: text.format("-")})
    repository.commit(MESSAGE, {source: text.format("+"), test_file: test_text})
    job = commands().start(
        *("suite", "mine", repository.folder, "--out", tmp_path / "suite", "--runs", "1"),
        cwd=tmp_path,
        env={"PATH": usual, "HOME": os.environ["HOME"], "PROCTOR_CACHE": str(tmp_path / "cache")},
    )
    done = job.wait_here(1700)
    assert done.code == 0, done.stderr
    found = list((tmp_path / "suite/instances").glob("*/instance.json"))
    assert found, done.stderr
    evaluation = json.loads(found[0].read_text())["eval"]
    assert [test.rpartition("::")[2] for test in evaluation["fail_to_pass"]] == [fixed]
    assert len(evaluation["pass_to_pass"]) == 1
