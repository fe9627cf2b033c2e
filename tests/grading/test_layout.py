"""A submission on a copy of the base: applied, audited by what it changed, protected files restored."""

from pathlib import Path

import pytest

from hostile_diffs import BASE, CHANGED, FORMS, hostile_diff, write
from proctor.core.causes import Cause
from proctor.core.evaluation import Prediction
from proctor.core.submission import PatchKind
from proctor.grading import AuditCode, apply_submission, lay_out, restore_paths, restore_protected
from proctor.workspaces import InvalidSubmission

PROTECTED = ("conftest.py",)


def prediction(patch: bytes) -> Prediction:
    return Prediction(task_id="t", patch_kind=PatchKind.UNIFIED_DIFF, content=patch)


@pytest.mark.parametrize("form", FORMS)
def test_a_diff_is_audited_by_what_it_changes_or_refused(form: str, tmp_path: Path) -> None:
    base, tree = write(tmp_path / "base", BASE), tmp_path / "tree"
    patch = hostile_diff(form, tmp_path / "diffs")
    if form in {"context", "indented", "ed"}:
        with pytest.raises(InvalidSubmission) as refused:
            apply_submission(base, prediction(patch), tree, protected=PROTECTED, merge=True)
        assert refused.value.cause in {Cause.MALFORMED_SUBMISSION, Cause.DOES_NOT_APPLY}
        assert {file.name: file.read_text() for file in tree.iterdir()} == BASE
        return
    applied = apply_submission(base, prediction(patch), tree, protected=PROTECTED, merge=True)
    assert {file.name: file.read_text() for file in tree.iterdir()} == CHANGED
    assert applied.touched == ("calc.py", "conftest.py")
    assert applied.restore == ("conftest.py",)
    assert {finding.code for finding in applied.findings} >= {AuditCode.TEST_MACHINERY, AuditCode.TEST_CONFIG}
    restore_paths(base, tree, applied.restore)
    assert (tree / "conftest.py").read_text() == BASE["conftest.py"]


def test_the_files_of_an_overlay_win(tmp_path: Path) -> None:
    base, overlay = write(tmp_path / "base", {"a": "1", "b": "1"}), write(tmp_path / "overlay", {"b": "2", "c/d": "2"})
    lay_out(base, tmp_path / "tree", overlay=overlay)
    found = {
        str(file.relative_to(tmp_path / "tree")): file.read_text()
        for file in (tmp_path / "tree").rglob("*")
        if file.is_file()
    }
    assert found == {"a": "1", "b": "2", "c/d": "2"}


def test_after_programs_have_run_everything_protected_is_what_it_was(tmp_path: Path) -> None:
    base = write(tmp_path / "base", {"src.py": "1", "tests/a.py": "1", "tests/b.py": "1", "hidden.txt": "1"})
    overlay = write(tmp_path / "overlay", {"hidden.txt": "1"})
    tree = write(tmp_path / "tree", {"src.py": "2", "tests/a.py": "2", "tests/c.py": "2", "hidden.txt": "2"})
    restore_protected(base, tree, protected=("tests/",), overlay=overlay)
    found = {str(file.relative_to(tree)): file.read_text() for file in tree.rglob("*") if file.is_file()}
    assert found == {"src.py": "2", "tests/a.py": "1", "tests/b.py": "1", "hidden.txt": "1"}
