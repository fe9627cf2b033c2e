"""Runs Python tests from their text: the original must pass, and an altered one must fail."""

import asyncio
import inspect
import textwrap
import unittest
from typing import Any

from proctor.grading.controls import Alteration, alter, find_alterations

PATH = "tests/test_sample.py"


def text(source: str) -> bytes:
    return textwrap.dedent(source).lstrip("\n").encode()


def alterations_of(source: bytes, test: str, path: str = PATH) -> tuple[Alteration, ...]:
    return find_alterations(path, source, [test]).get(test, ())


def passes(source: bytes, name: str) -> bool:
    """Whether the test `function` or `Case.method` passes."""
    namespace: dict[str, Any] = {"__name__": "test_sample"}
    exec(compile(source, PATH, "exec", dont_inherit=True), namespace)  # the text is this test's own
    owner, _, method = name.rpartition(".")
    if owner:
        result = unittest.TestResult()
        namespace[owner](method).run(result)
        return result.wasSuccessful()
    try:
        outcome = namespace[name]()
        if inspect.iscoroutine(outcome):
            asyncio.run(outcome)
    except Exception:  # noqa: BLE001 - any exception fails a test
        return False
    return True


def assert_each_fails(source: bytes, name: str, test: str | None = None) -> tuple[Alteration, ...]:
    """The alterations of a test that passes as it is: each makes it fail."""
    assert passes(source, name)
    found = alterations_of(source, test or f"tests.test_sample.{name}")
    assert found
    for one in found:
        assert not passes(alter(source, [one]), name), one
    return found
