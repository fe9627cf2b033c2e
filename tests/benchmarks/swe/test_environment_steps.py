"""What happens to a patch in an environment: how it is applied, what is read of its change, what is restored."""

import os
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from hostile_diffs import BASE, CHANGED, FORMS, hostile_diff, write
from proctor.benchmarks.swe.environment_steps import AppliedPatch, apply_in_environment
from proctor.core.environment import Environment, EnvironmentSpec
from proctor.core.trees import EXECUTABLE, FILE, LINK, FileEntry
from proctor.environments.local import LocalProvider
from proctor.grading import AuditCode, audit_change

COMMANDS = (
    "git apply --verbose",
    "git apply --verbose --3way",
    "git apply --verbose --reject",
    "patch --batch --forward --fuzz=5 -p1 -i",
)
PROTECTED = ("conftest.py",)


def git(folder: Path, *arguments: str) -> None:
    identity = ["-c", "user.name=a", "-c", "user.email=a@example.com"]
    subprocess.run(["git", "-C", str(folder), *identity, *arguments], check=True, capture_output=True)


@pytest.fixture
async def environment(tmp_path: Path) -> AsyncIterator[Environment]:
    tree = write(tmp_path / "tree", {**BASE, ".gitignore": "built/\n", "old name.txt": "old\n"})
    git(tree, "init", "-q")
    git(tree, "add", "-A")
    git(tree, "commit", "-qm", "base")
    write(tree, {"built/made.py": "made = 1\n"})
    provider = LocalProvider(environments_dir=tmp_path / "environments")
    async with await provider.start(EnvironmentSpec(workspace=tree)) as started:
        yield started
    await provider.close()


async def apply(environment: Environment, patch: bytes, protected: tuple[str, ...] = ()) -> AppliedPatch:
    return await apply_in_environment(environment, patch, COMMANDS, protected=protected, clean=True)


@pytest.mark.parametrize("form", FORMS)
async def test_every_form_of_a_diff_that_is_applied_is_audited(
    form: str, environment: Environment, tmp_path: Path
) -> None:
    applied = await apply(environment, hostile_diff(form, tmp_path), PROTECTED)
    assert applied.command_index is not None, applied.output
    assert applied.change.before == {name: FileEntry(FILE, text.encode()) for name, text in BASE.items()}
    assert applied.change.after == {name: FileEntry(FILE, text.encode()) for name, text in CHANGED.items()}
    findings = {(finding.path, finding.code) for finding in audit_change(applied.change, protected=PROTECTED)}
    assert findings >= {
        ("calc.py", AuditCode.TEST_MACHINERY),
        ("conftest.py", AuditCode.TEST_CONFIG),
        ("conftest.py", AuditCode.PROTECTED_PATH),
    }
    assert applied.restored == ("conftest.py",)
    left = await environment.exec(["cat", "calc.py", "conftest.py"])
    assert left.stdout.decode() == CHANGED["calc.py"] + BASE["conftest.py"]


async def test_a_change_is_read_whatever_it_does_to_a_file(environment: Environment) -> None:
    patch = (
        b"diff --git a/old name.txt b/old name.txt\ndeleted file mode 100644\n"
        b"--- a/old name.txt\n+++ /dev/null\n@@ -1 +0,0 @@\n-old\n"
        b"diff --git a/link b/link\nnew file mode 120000\n--- /dev/null\n+++ b/link\n@@ -0,0 +1 @@\n+calc.py\n"
        b"\\ No newline at end of file\n"
        b'diff --git "a/odd\\377\\nname" "b/odd\\377\\nname"\nnew file mode 100755\n--- /dev/null\n'
        b'+++ "b/odd\\377\\nname"\n@@ -0,0 +1 @@\n+x\n'
        b"diff --git a/built/made.py b/built/made.py\n--- a/built/made.py\n+++ b/built/made.py\n"
        b"@@ -1 +1 @@\n-made = 1\n+made = 2\n"
    )
    applied = await apply(environment, patch)
    assert applied.command_index == 0, applied.output
    assert applied.change.before == {"old name.txt": FileEntry(FILE, b"old\n")}
    assert applied.change.after == {
        "link": FileEntry(LINK, b"calc.py"),
        os.fsdecode(b"odd\xff\nname"): FileEntry(EXECUTABLE, b"x\n"),
        "built/made.py": FileEntry(FILE, b"made = 2\n"),  # ignored by git, so what it was before is not known
    }


async def test_the_backup_that_patch_makes_is_no_change(environment: Environment) -> None:
    fuzzy = (
        b"--- a/calc.py\n+++ b/calc.py\n@@ -3,4 +3,4 @@\n # another context\n def double(number):\n"
        b"-    return number\n+    return 2 * number\n \n"
    )
    applied = await apply(environment, fuzzy)
    assert (applied.command_index, applied.change.paths) == (3, ("calc.py",)), applied.output


@pytest.mark.parametrize("name", [".git/config", ".git/hooks/post-checkout", ".git/info/attributes"])
async def test_a_patch_that_writes_into_git_is_not_applied(name: str, environment: Environment) -> None:
    # Git refuses such a path, `patch` does not, and git would run what is named there.
    patch = (
        f"*** a/{name}\t1970-01-01 00:00:00\n--- b/{name}\n***************\n*** 0 ****\n--- 1,2 ----\n+ [core]\n+ x\n"
    )
    if name == ".git/config":
        patch = f"--- a/{name}\n+++ b/{name}\n@@ -1 +1,2 @@\n [core]\n+\tfsmonitor = touch /tmp/ran\n"
    applied = await apply(environment, patch.encode())
    assert applied.command_index is None
    assert "writes into .git" in applied.output
    assert (await environment.exec(["ls", "/tmp/ran"])).exit_code != 0


async def test_a_patch_that_no_command_takes_changes_nothing(environment: Environment) -> None:
    applied = await apply(environment, b"--- a/none.py\n+++ b/none.py\n@@ -1 +1 @@\n-x\n+y\n")
    assert (applied.command_index, applied.change.paths) == (None, ())
    assert applied.output
