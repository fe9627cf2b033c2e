"""Repair by x07's linter. With X07_BIN set, the tests that need no misbehaviour also run the real x07."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from plain_environment import PlainEnvironment, environment_at
from proctor.benchmarks.x07.files import X07Eval
from proctor.benchmarks.x07.repair import _LintReport, canonicalise, quickfixes, repair, with_first_pass
from proctor.benchmarks.x07.test_command import X07Run, run_x07_test
from proctor.benchmarks.x07.toolchain import make_toolchain
from proctor.core.environment import ExecResult
from proctor.core.evaluation import RepairSummary, TestSummary
from proctor.core.request import RepairMode
from x07_world import FUNCTIONS, PROGRAMS, STANDIN, asserting, module, write_module, write_repo

EVERY_X07 = pytest.mark.parametrize("x07", PROGRAMS, ids=lambda program: "stand-in" if program == STANDIN else "real")
TESTS = X07Eval(manifest="tests/tests.json", module_root=("modules",))
M = "modules/m.x07.json"


class World:
    """A workspace in which a patch has just been applied."""

    def __init__(self, tmp_path: Path, program: Path = STANDIN, **functions: Any) -> None:
        self.workspace = write_repo(tmp_path / "workspace", *((name, name) for name in functions), **functions)
        self.environment = environment_at(self.workspace)
        self.x07 = make_toolchain(program)
        self.pristine, self.artifacts, self.scratch = tmp_path, tmp_path / "artifacts", tmp_path / "scratch"

    async def repair(self, mode: RepairMode = "write", *touched: str, **options: Any) -> RepairSummary | None:
        return await repair(
            self.environment,
            self.x07,
            TESTS,
            touched or (M,),
            mode=mode,
            world="solve-pure",
            pristine=self.pristine,
            artifacts=self.artifacts,
            scratch=str(self.scratch),
            **options,
        )

    async def compiles(self) -> bool:
        run = await run_x07_test(
            self.environment,
            self.x07,
            TESTS,
            pristine=self.pristine,
            name="after_patch",
            artifacts=self.artifacts,
            patched=True,
            timeout=60,
            scratch=str(self.scratch),
        )
        return isinstance(run, X07Run) and run.summary.compiled is True

    def text(self) -> str:
        return (self.workspace / M).read_text()


def summary(mode: Any, iterations: int, ops: int, lint_ok: bool, first_pass: bool | None = None) -> RepairSummary:
    return RepairSummary(
        mode=mode, iterations=iterations, applied_ops=ops, last_lint_ok=lint_ok, first_pass_ok=first_pass
    )


@EVERY_X07
@pytest.mark.parametrize("name", ["many", "loops"])
async def test_write_repairs_the_file_and_reports_that_it_did_not_compile_before(
    x07: Path, tmp_path: Path, name: str
) -> None:
    world = World(tmp_path, x07, it=FUNCTIONS[name])
    assert await world.repair() == summary("write", 2, 1, lint_ok=True, first_pass=False)
    assert await world.compiles()


@EVERY_X07
async def test_memory_counts_what_it_would_take_and_leaves_the_file_as_it_was(x07: Path, tmp_path: Path) -> None:
    world = World(tmp_path, x07, it=FUNCTIONS["many"])
    before = world.text()
    assert await world.repair("memory") == summary("memory", 2, 1, lint_ok=True)
    assert world.text() == before
    assert not await world.compiles()


async def test_repair_mode_off_does_nothing(tmp_path: Path) -> None:
    world = World(tmp_path, it=FUNCTIONS["many"])
    assert await world.repair("off") is None
    assert world.environment.ran == []


@EVERY_X07
async def test_a_clean_file_takes_one_pass_and_stays_as_it_was_submitted(x07: Path, tmp_path: Path) -> None:
    world = World(tmp_path, x07, it=FUNCTIONS["good"])
    before = world.text()
    assert await world.repair() == summary("write", 1, 0, lint_ok=True)
    assert world.text() == before
    assert not (world.artifacts / "first_pass.x07test.report.json").exists()


@EVERY_X07
async def test_what_has_no_quickfix_is_not_clean_after_one_pass(x07: Path, tmp_path: Path) -> None:
    world = World(tmp_path, x07, it=["begin", ["let", "x"], ["std.test.pass"]])
    assert await world.repair() == summary("write", 1, 0, lint_ok=False)


@EVERY_X07
async def test_a_patch_that_the_linter_repairs_for_its_style_may_have_compiled_before(
    x07: Path, tmp_path: Path
) -> None:
    # Nothing calls `unused`, so x07 does not compile it.
    world = World(tmp_path, x07, it=FUNCTIONS["good"])
    write_module(world.workspace, it=FUNCTIONS["good"], unused=FUNCTIONS["many"])
    assert await world.repair() == summary("write", 2, 1, lint_ok=True, first_pass=True)


@EVERY_X07
@pytest.mark.parametrize(
    ("rounds", "iterations", "ops", "lint_ok"), [(1, 1, 2, False), (2, 2, 3, True), (5, 3, 3, True)]
)
async def test_rounds_are_counted_up_to_the_limit(
    x07: Path, tmp_path: Path, *, rounds: int, iterations: int, ops: int, lint_ok: bool
) -> None:
    # Repairing the outer fault restores the inner one, so that it takes another round; the numbers are x07's own.
    nested = asserting(["+", 1, ["+", 1, 1, 1], 0], 4)
    world = World(tmp_path, x07, it=nested)
    found = await world.repair(max_iters=rounds)
    assert found is not None
    assert (found.iterations, found.applied_ops, found.last_lint_ok) == (iterations, ops, lint_ok), world.text()


@EVERY_X07
async def test_iterations_are_the_most_and_operations_the_sum_over_files(x07: Path, tmp_path: Path) -> None:
    world = World(tmp_path, x07, it=FUNCTIONS["many"], other=FUNCTIONS["loops"])
    more = world.workspace / "modules" / "n.x07.json"
    more.write_text(json.dumps(module("n", {"x": FUNCTIONS["many"]})))
    clean = world.workspace / "modules" / "c.x07.json"
    clean.write_text(json.dumps(module("c", {"x": FUNCTIONS["good"]})))
    touched = (M, "modules/n.x07.json", "modules/c.x07.json", M, "tests/tests.json")
    assert await world.repair("write", *touched) == summary("write", 2, 3, lint_ok=True, first_pass=False)


@EVERY_X07
async def test_without_a_touched_module_there_is_nothing_to_repair(x07: Path, tmp_path: Path) -> None:
    world = World(tmp_path, x07, it=FUNCTIONS["many"])
    assert await world.repair("write", "tests/tests.json") == summary("write", 0, 0, lint_ok=True)


@EVERY_X07
@pytest.mark.parametrize("text", ["{", '{"x": 1}', None])
async def test_a_file_that_the_linter_cannot_read_stays_and_counts_as_not_clean(
    x07: Path, tmp_path: Path, text: str | None
) -> None:
    world = World(tmp_path, x07, it=FUNCTIONS["good"])
    file = world.workspace / M
    file.unlink()
    if text is not None:
        file.write_text(text)
    assert await world.repair() == summary("write", 1, 0, lint_ok=False)
    assert (file.read_text() if file.exists() else None) == text


async def test_a_link_is_not_written_through(tmp_path: Path) -> None:
    world = World(tmp_path, it=FUNCTIONS["many"])
    outside = tmp_path / "outside.x07.json"
    outside.write_text(world.text())
    before = outside.read_text()
    (world.workspace / M).unlink()
    (world.workspace / M).symlink_to(outside)
    assert await world.repair() == summary("write", 1, 0, lint_ok=False)
    assert outside.read_text() == before


async def test_a_file_that_cannot_be_written_is_not_called_repaired(tmp_path: Path) -> None:
    world = World(tmp_path, it=FUNCTIONS["many"])

    class ReadOnlyEnvironment(PlainEnvironment):
        async def exec(self, argv: Sequence[str], **options: Any) -> ExecResult:
            if argv[0] == "cp":
                return ExecResult(exit_code=1, stdout=b"", stderr=b"cp: read-only file system", seconds=0.0)
            return await super().exec(argv, **options)

    world.environment = ReadOnlyEnvironment(tmp_path / "environment", workspace=world.workspace)
    assert await world.repair() == summary("write", 2, 1, lint_ok=False, first_pass=False)


async def test_a_linter_that_hangs_is_ended_by_the_time_limit(tmp_path: Path) -> None:
    world = World(tmp_path, it=FUNCTIONS["many"])
    (world.workspace / "x07-standin.json").write_text('{"lint": "hang"}')
    assert await world.repair(timeout=0.3) == summary("write", 1, 0, lint_ok=False)
    assert await world.repair(timeout=0) == summary("write", 1, 0, lint_ok=False)


def test_first_pass_is_read_off_the_tests_where_they_ran_on_the_files_as_submitted() -> None:
    after = TestSummary(ok=True, exit_code=0, compiled=True)
    broken = TestSummary(ok=False, exit_code=11, compile_failures=1, compiled=False)
    assert with_first_pass(summary("write", 1, 0, lint_ok=True), after) == summary("write", 1, 0, True, True)
    assert with_first_pass(summary("write", 1, 0, lint_ok=True), broken) == summary("write", 1, 0, True, False)
    assert with_first_pass(summary("memory", 2, 1, lint_ok=True), broken) == summary("memory", 2, 1, True, False)
    repaired = summary("write", 2, 1, lint_ok=True)
    assert with_first_pass(repaired, after) == repaired
    tried = summary("write", 2, 1, lint_ok=True, first_pass=False)
    assert with_first_pass(tried, after) == tried
    assert with_first_pass(None, after) is None
    assert with_first_pass(repaired, None) == repaired


def test_quickfixes_come_in_the_order_in_which_x07_applies_them() -> None:
    ops = [
        {"op": "add", "path": "/a/2", "value": 1},
        {"op": "add", "path": "/a/10", "value": 2},
        {"op": "add", "path": "/a/10", "value": 3},
        {"op": "add", "path": "/a/-", "value": 4},
        {"op": "remove", "path": "/a/9"},
        {"op": "copy", "path": "/c", "from": "/d"},
        {"op": "move", "path": "/b", "from": "/c"},
        {"op": "replace", "path": "/a/2", "value": 5},
        {"op": "replace", "path": "/a/2/1", "value": 6},
        {"op": "replace", "path": "/a/10", "value": 7},
        {"op": "test", "path": "/z", "value": 8},
    ]
    offered = [{"quickfix": {"kind": "json_patch", "patch": [op]}} for op in ops]
    other = [{"quickfix": {"kind": "prose", "patch": ops}}, {"code": "no quickfix"}]
    report = msgspec.convert({"ok": False, "diagnostics": [*offered, *other]}, type=_LintReport)
    order = [10, 9, 8, 7, 5, 6, 4, 2, 1, 0, 3]
    assert quickfixes(report.diagnostics) == [ops[number] for number in order]


@EVERY_X07
async def test_canonical_form_is_written_and_what_is_no_ast_is_named(x07: Path, tmp_path: Path) -> None:
    world = World(tmp_path, x07, z=FUNCTIONS["good"], a=FUNCTIONS["good"])
    assert await canonicalise(world.environment, world.x07, [M, "tests/tests.json"]) == {}
    text = world.text()
    assert text == json.dumps(json.loads(text), indent=2, sort_keys=True) + "\n"
    bad = world.workspace / "modules" / "bad.x07.json"
    bad.write_text('{"x": 1}')
    write_module(world.workspace, z=FUNCTIONS["good"], a=FUNCTIONS["good"])
    refused = await canonicalise(world.environment, world.x07, ["modules/bad.x07.json", M])
    assert list(refused) == ["modules/bad.x07.json"]
    assert "schema_version" in refused["modules/bad.x07.json"]
    assert (world.text(), bad.read_text()) == (text, '{"x": 1}')


async def test_nothing_to_canonicalise_starts_nothing(tmp_path: Path) -> None:
    world = World(tmp_path, it=FUNCTIONS["good"])
    assert await canonicalise(world.environment, world.x07, ["tests/tests.json"]) == {}
    assert world.environment.ran == []
