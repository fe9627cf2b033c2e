"""Small x07 repositories for tests, and the x07 programs to try them with: the stand-in, and a real one if X07_BIN
names it."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from paths import REPOSITORY, sample_data, shared_data

STANDIN = REPOSITORY / "tests" / "standins" / "x07"
PROGRAMS = [STANDIN, *(Path(named) for named in [os.environ.get("X07_BIN", "")] if named)]
# A suite of our own in x07's format, and x07's: where each is, and its name.
SUITES = [
    pytest.param(sample_data, "tally_v0", id="our-sample"),
    pytest.param(shared_data, "core_v0", id="real-sample"),
]

Body = Any


def asserting(expression: Body, wanted: int) -> Body:
    """A test function's body: that `expression` is `wanted`."""
    check = ["std.test.assert_i32_eq", expression, wanted, ["std.test.code_assert_i32_eq"]]
    return ["begin", ["try", check], ["std.test.pass"]]


FUNCTIONS: dict[str, Body] = {
    "good": asserting(["+", 1, 1], 2),
    "bad": asserting(["+", 1, 1], 3),
    "unknown": asserting(["m.nowhere", 1], 2),
    "endless": ["begin", ["let", "i", 0], ["while", 1, ["set", "i", ["+", "i", 1]]], ["std.test.pass"]],
    "many": asserting(["+", 1, 1, 2], 4),
    "loops": [
        "begin",
        ["let", "n", 0],
        ["for", "i", 0, 3, ["set", "n", ["+", "n", "i"]], ["set", "n", ["+", "n", 1]]],
        *asserting("n", 6)[1:],
    ],
}


def module(name: str, functions: dict[str, Body]) -> dict[str, Any]:
    """An x07AST module."""
    defined = [
        {"kind": "defn", "name": f"{name}.{function}", "params": [], "result": "result_i32", "body": body}
        for function, body in functions.items()
    ]
    exported = {"kind": "export", "names": sorted(f"{name}.{function}" for function in functions)}
    return {
        "schema_version": "x07.x07ast@0.3.0",
        "kind": "module",
        "module_id": name,
        "imports": ["std.test"],
        "decls": [exported, *defined],
    }


def write_repo(folder: Path, *tests: tuple[str, str] | tuple[str, str, str], **functions: Body) -> Path:
    """A repository with one module `m`; each test is (id, function of m) or (id, function, expectation)."""
    (folder / "modules").mkdir(parents=True, exist_ok=True)
    (folder / "tests").mkdir(exist_ok=True)
    write_module(folder, **(functions or FUNCTIONS))
    manifest = {
        "schema_version": "x07.tests_manifest@0.1.0",
        "tests": [
            {"id": test[0], "world": "solve-pure", "entry": f"m.{test[1]}", "expect": (*test, "pass")[2]}
            for test in tests
        ],
    }
    (folder / "tests" / "tests.json").write_text(json.dumps(manifest))
    return folder


def write_module(folder: Path, **functions: Body) -> Path:
    file = folder / "modules" / "m.x07.json"
    file.write_text(json.dumps(module("m", functions)))
    return file
