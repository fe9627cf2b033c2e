"""Repairs a patch with x07's linter before its tests run, and counts what that took.

x07's own harness does this inside one process. Here the same steps go through its commands: `x07 lint` names the
quickfixes, `x07 ast apply-patch` applies them. `x07 fix` would do both at once, but always goes up to five rounds and
does not report how many it took nor what it changed.
"""

import json
import math
import posixpath
import secrets
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from proctor.benchmarks.x07.files import World, X07Eval
from proctor.benchmarks.x07.test_command import X07Run, run_x07_test
from proctor.benchmarks.x07.toolchain import Toolchain
from proctor.core.environment import Environment, ExecResult
from proctor.core.errors import InvalidData
from proctor.core.evaluation import RepairSummary, TestSummary
from proctor.core.record import Record, from_json
from proctor.core.request import RepairMode

AST_SUFFIX: Final = ".x07.json"
LINT_BYTES: Final = 16_000_000
_FORMAT_SECONDS: Final = 60.0
_COPY: Final = 'test -f "$1" && test ! -L "$1" && mkdir -p "$(dirname "$2")" && cp -- "$1" "$2"'


class _LintQuickfix(Record):
    kind: str
    patch: tuple[dict[str, Any], ...]


class _LintDiagnostic(Record):
    quickfix: _LintQuickfix | None = None


class _LintReport(Record):
    ok: bool
    diagnostics: tuple[_LintDiagnostic, ...]


class _FileRepair(Record):
    """The repair of one file; `copy` holds the repaired text when something was changed."""

    iterations: int
    applied_ops: int
    lint_ok: bool
    copy: str | None = None


class _RepairStopped(Exception):
    """The time ran out, or x07 gave no result for the file."""


class _Linter:
    """x07's commands for one file after another, all within one time limit."""

    def __init__(self, environment: Environment, x07: Toolchain, world: World, scratch: str, seconds: float) -> None:
        self._environment = environment
        self._x07 = x07
        self._world = world
        self._scratch = scratch
        self._deadline = time.monotonic() + seconds

    async def repair_file(self, file: str, number: int, rounds: int) -> _FileRepair:
        """Lint and apply quickfixes, to a copy, until the file is clean or nothing more can be done."""
        copy = posixpath.join(self._scratch, f"{number}{AST_SUFFIX}")
        at, iterations, applied, clean = file, 0, 0, False
        try:
            for _ in range(rounds):
                iterations += 1
                clean, fixes = await self._lint(at)
                if clean or not fixes:
                    break
                if at is file:
                    await self._run(["sh", "-c", _COPY, "sh", file, copy])
                    at = copy
                await self._apply(fixes, copy)
                applied += len(fixes)
            else:
                clean, _ = await self._lint(at)
        except _RepairStopped:
            clean = False
        return _FileRepair(
            iterations=iterations, applied_ops=applied, lint_ok=clean, copy=copy if at is copy and applied else None
        )

    async def _lint(self, file: str) -> tuple[bool, list[dict[str, Any]]]:
        command = [self._x07.program, "lint", "--input", file, "--world", self._world]
        done = await self._exec(command)
        try:
            report = from_json(done.stdout, _LintReport)
        except InvalidData:
            raise _RepairStopped from None
        return report.ok, quickfixes(report.diagnostics)

    async def _apply(self, fixes: Sequence[dict[str, Any]], copy: str) -> None:
        patch = posixpath.join(self._scratch, "quickfixes.json")
        try:
            data = json.dumps(fixes).encode()
        except RecursionError:
            raise _RepairStopped from None
        await self._environment.put(data, patch)
        await self._run([self._x07.program, "ast", "apply-patch", "--in", copy, "--patch", patch])

    async def _run(self, argv: Sequence[str]) -> None:
        if (await self._exec(argv)).exit_code != 0:
            raise _RepairStopped

    async def _exec(self, argv: Sequence[str]) -> ExecResult:
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise _RepairStopped
        done = await self._environment.exec(argv, cwd=self._environment.workdir, timeout=left, output_bytes=LINT_BYTES)
        if done.timed_out:
            raise _RepairStopped
        return done


async def repair(
    environment: Environment,
    x07: Toolchain,
    tests: X07Eval,
    touched: Sequence[str],
    *,
    mode: RepairMode,
    world: World,
    pristine: Path,
    artifacts: Path,
    max_iters: int = 3,
    timeout: float = 120,
    test_timeout: float = 300,
    jobs: int = 1,
    scratch: str = "/tmp",  # noqa: S108 - in the environment, where it is private
) -> RepairSummary | None:
    """Let x07's linter repair what a patch touched; None when the mode is `off`.

    Only `*.x07.json` files are read. In mode `memory` the linter works on copies and the files stay as they were
    submitted; in mode `write` a file that it changed is replaced, after the tests were compiled without that
    (`first_pass_ok`). A file that the linter cannot read stays as it is and counts as not clean. `touched` are paths
    below the workspace.
    """
    if mode == "off":
        return None
    fresh = posixpath.join(scratch, f"proctor-x07-{secrets.token_hex(16)}")
    linter = _Linter(environment, x07, world, fresh, timeout)
    repairs: dict[str, _FileRepair] = {}
    for number, path in enumerate(sorted(set(touched))):
        if path.endswith(AST_SUFFIX):
            file = posixpath.join(environment.workdir, path)
            repairs[file] = await linter.repair_file(file, number, max(1, max_iters))
    changed = {file: found.copy for file, found in repairs.items() if found.copy is not None}
    first_pass_ok, in_place = None, True
    if mode == "write" and changed:
        first_pass = await run_x07_test(
            environment,
            x07,
            msgspec.structs.replace(tests, no_run=True, keep_artifacts=False),
            pristine=pristine,
            name="first_pass",
            artifacts=artifacts,
            patched=True,
            timeout=test_timeout,
            jobs=jobs,
            scratch=scratch,
        )
        first_pass_ok = isinstance(first_pass, X07Run) and first_pass.summary.compiled is True
        for file, copy in changed.items():
            done = await environment.exec(["cp", "--", copy, file], timeout=timeout)
            in_place = in_place and done.exit_code == 0
    return RepairSummary(
        mode=mode,
        iterations=max((found.iterations for found in repairs.values()), default=0),
        applied_ops=sum(found.applied_ops for found in repairs.values()),
        last_lint_ok=in_place and all(found.lint_ok for found in repairs.values()),
        first_pass_ok=first_pass_ok,
    )


def with_first_pass(repaired: RepairSummary | None, after: TestSummary | None) -> RepairSummary | None:
    """Fill in `first_pass_ok` from the post-patch run, where it ran on the files as they were submitted."""
    if repaired is None or after is None or repaired.first_pass_ok is not None:
        return repaired
    if repaired.mode == "write" and repaired.applied_ops > 0:
        return repaired
    return msgspec.structs.replace(repaired, first_pass_ok=after.compiled)


def quickfixes(diagnostics: Sequence[_LintDiagnostic]) -> list[dict[str, Any]]:
    """All operations that a lint report offers, in the order in which x07 applies them.

    First tests; then replacements from the last and deepest place to the first; moves and copies; removals, then
    additions, from the last place to the first, so that the places of those still to come stay valid.
    """
    offered = [one.quickfix.patch for one in diagnostics if one.quickfix and one.quickfix.kind == "json_patch"]
    numbered = list(enumerate(op for patch in offered for op in patch))

    def chosen(*names: str) -> list[tuple[int, dict[str, Any]]]:
        return [(number, op) for number, op in numbered if op.get("op") in names]

    def last_first(*names: str) -> list[tuple[int, dict[str, Any]]]:
        return sorted(chosen(*names), key=lambda item: (_pointer_order(item[1]), item[0]), reverse=True)

    replacements = sorted(chosen("replace"), key=lambda item: _pointer_order(item[1]), reverse=True)
    ordered = [*chosen("test"), *replacements, *chosen("move", "copy"), *last_first("remove"), *last_first("add")]
    return [op for _, op in ordered]


def _pointer_order(op: dict[str, Any]) -> list[tuple[float, str]]:
    """A JSON pointer that compares in the order of the document: positions in arrays are numbers."""

    def key(step: str) -> tuple[float, str]:
        if step.isascii() and step.isdigit():
            return (int(step), "")
        return (-1 if step == "-" else math.inf, step)

    return [key(step) for step in str(op.get("path", "")).lstrip("/").split("/")]


async def canonicalise(environment: Environment, x07: Toolchain, files: Sequence[str]) -> dict[str, str]:
    """Write x07AST files as x07's harness leaves them after a patch set (`x07 fmt --write --pretty`).

    No verdict depends on those bytes: x07 reads any spelling of the same tree alike. The result is which files are no
    x07AST: they are left as they are, and returned with x07's error. `files` are paths below the workspace; those that
    do not end in `.x07.json` are left alone.
    """
    chosen = [file for file in files if file.endswith(AST_SUFFIX)]
    if not chosen or await _format(environment, x07, chosen) is None:
        return {}
    errors = {file: await _format(environment, x07, [file]) for file in chosen}
    return {file: error for file, error in errors.items() if error is not None}


async def _format(environment: Environment, x07: Toolchain, files: Sequence[str]) -> str | None:
    inputs = [word for file in files for word in ("--input", posixpath.join(environment.workdir, file))]
    done = await environment.exec(
        [x07.program, "fmt", "--write", "--pretty", *inputs], cwd=environment.workdir, timeout=_FORMAT_SECONDS
    )
    if done.exit_code == 0:
        return None
    lines = done.stderr.decode(errors="replace").strip().splitlines()
    return lines[0] if lines else "x07 fmt printed nothing"
