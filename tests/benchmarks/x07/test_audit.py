import json
import tempfile
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from proctor.benchmarks.x07 import audit
from proctor.core.verdict import Finding
from proctor.workspaces import read_change
from x07_world import FUNCTIONS, asserting, module

PATH = "modules/m.x07.json"


def text(**functions: object) -> dict[str, bytes]:
    return {PATH: json.dumps(module("m", dict(functions))).encode()}


def x07_findings(before: dict[str, bytes], after: dict[str, bytes]) -> tuple[Finding, ...]:
    with tempfile.TemporaryDirectory() as folder:
        for name, files in (("before", before), ("after", after)):
            for path, data in files.items():
                file = Path(folder, name, path)
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_bytes(data)
        return audit.x07_findings(read_change(Path(folder, "before"), Path(folder, "after"), [*before, *after]))


def test_a_test_that_was_gutted_is_named() -> None:
    (finding,) = x07_findings(text(it=FUNCTIONS["bad"]), text(it=["std.test.pass"]))
    assert (finding.code, finding.path) == ("x07-assertions-removed", PATH)
    assert finding.detail == "calls that can fail a test: 1 before, 0 after"


def test_a_module_that_was_deleted_or_made_unreadable_is_named() -> None:
    assert len(x07_findings(text(it=FUNCTIONS["bad"]), {})) == 1
    assert len(x07_findings(text(it=FUNCTIONS["bad"]), {PATH: b"{"})) == 1


def test_an_honest_change_is_not_named() -> None:
    before = text(it=asserting(["+", 2, 2], 5))
    assert x07_findings(before, text(it=asserting(["+", 2, 2], 4))) == ()
    assert x07_findings(before, text(it=asserting(["+", 2, 2], 4), more=FUNCTIONS["good"])) == ()
    assert x07_findings({}, text(it=["std.test.pass"])) == ()
    assert x07_findings({"notes.json": b'[["std.test.fail", 1]]'}, {}) == ()


@given(st.binary(max_size=40), st.integers(0, 100_000))
def test_no_file_makes_the_audit_raise(data: bytes, depth: int) -> None:
    assert x07_findings({PATH: data}, {PATH: b"[" * depth}) in ((), x07_findings({PATH: data}, {}))
