"""A language of tests for tests of control checks: each line is a test's name and the value that it expects."""

from collections.abc import Callable, Mapping, Sequence

from proctor.core.verdict import TestStatus
from proctor.grading import InconclusiveKind, InconclusiveRun, TestResults, TestRun
from proctor.grading.controls import Alteration, AlterationKind, Edit

FILE = "tests/values.toy"
Program = Callable[[str, int], bool]
"""Whether a program passes the test with this name that expects this value."""


def source(**expected: int) -> bytes:
    return "".join(f"{name} {value}\n" for name, value in expected.items()).encode()


def find(path: str, data: bytes, tests: Sequence[str]) -> dict[str, tuple[Alteration, ...]]:
    """Two candidates for each test: the value doubled, which changes nothing for 0, and one more."""
    found, start = {}, 0
    for number, line in enumerate(data.decode().splitlines(), 1):
        name, value = line.split()
        at = start + len(name) + 1
        if name in tests:
            found[name] = tuple(
                Alteration(
                    path=path,
                    tests=(name,),
                    kind=AlterationKind.LITERAL,
                    edits=(Edit(start=at, end=at + len(value), text=str(other)),),
                    first_line=number,
                    last_line=number,
                    original=value,
                    altered=str(other),
                    contradicts=other != int(value),
                )
                for other in (int(value) * 2, int(value) + 1)
            )
        start += len(line) + 1
    return found


class ToyRunner:
    """Runs toy tests against a program, and keeps the variants that it was given.

    Args:
        program: decides each test.
        fail_fast: no test runs after one that failed.
    """

    def __init__(self, data: bytes, program: Program, *, fail_fast: bool = False) -> None:
        self._files = {FILE: data}
        self._program = program
        self._fail_fast = fail_fast
        self.variants: list[dict[str, bytes]] = []

    async def __call__(self, files: Mapping[str, bytes], name: str) -> TestRun:
        del name
        self.variants.append(dict(files))
        tests: dict[str, TestStatus] = {}
        log = ""
        for number, line in enumerate({**self._files, **files}[FILE].decode().split("\n"), 1):
            if not line:
                continue
            test, value = line.split()
            passes = self._program(test, int(value))
            tests[test] = TestStatus.PASSED if passes else TestStatus.FAILED
            if not passes:
                log += f"{FILE}:{number}: {test}\n"
                if self._fail_fast:
                    break
        failed = TestStatus.FAILED in tests.values()
        return TestRun(outcome=TestResults(tests=tests), exit_code=int(failed), log=log.encode())


def right(**values: int) -> Program:
    return lambda test, expected: values[test] == expected


def passes_everything(test: str, expected: int) -> bool:
    del test, expected
    return True


async def broken(files: Mapping[str, bytes], name: str) -> TestRun:
    del files, name
    outcome = InconclusiveRun(kind=InconclusiveKind.CUT_SHORT, reason="it ended early")
    return TestRun(outcome=outcome, exit_code=1)
