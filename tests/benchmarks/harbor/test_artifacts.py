"""What is copied out for a separate verifier: links stay links or are left behind, and nothing leads elsewhere."""

import io
import tarfile
from pathlib import Path

import pytest

from plain_environment import PlainEnvironment
from proctor.benchmarks.harbor.artifacts import (
    ArtifactManifest,
    StepSubmission,
    copy_artifacts,
    read_archive,
    write_archive,
)
from proctor.benchmarks.harbor.task import Artifact
from proctor.core.errors import InvalidData


class CopiedFrom(PlainEnvironment):
    """An environment whose paths are below a folder of this machine."""

    def __init__(self, root: Path) -> None:
        self.root = root

    async def get(self, path: str, target: Path, *, max_bytes: int = 0) -> None:
        import shutil

        source = self.root / path.lstrip("/")
        if source.is_symlink():
            target.symlink_to(source.readlink())
        elif source.is_dir():
            shutil.copytree(source, target, symlinks=True)
        elif source.is_file():
            shutil.copy2(source, target)
        else:
            raise FileNotFoundError(path)


@pytest.fixture
def machine(tmp_path: Path) -> CopiedFrom:
    app = tmp_path / "machine" / "app"
    (app / "out").mkdir(parents=True)
    (app / "out" / "answer.txt").write_text("42\n")
    (app / "out" / "run.sh").write_text("true\n")
    (app / "out" / "run.sh").chmod(0o4755)
    (app / "out" / "skip.log").write_text("noise")
    (app / "out" / "near").symlink_to("answer.txt")
    (app / "out" / "absolute").symlink_to("/app/out/answer.txt")
    (app / "out" / "far").symlink_to("/tests/expected.txt")
    (app / "out" / "up").symlink_to("../../tests")
    (app / "link").symlink_to("out")
    return CopiedFrom(tmp_path / "machine")


async def test_files_come_out_and_links_that_lead_away_stay_behind(machine: CopiedFrom, tmp_path: Path) -> None:
    trees = tmp_path / "trees"
    trees.mkdir()
    wanted = (
        Artifact(source="/app/out", exclude=("*.log",)),
        Artifact(source="/app/link"),
        Artifact(source="/app/nothing"),
        Artifact(source="/app/out/answer.txt"),
    )
    made, findings = await copy_artifacts(machine, wanted, trees, "s-")
    assert [one.kind for one in made] == ["directory", "missing", "missing", "file"]
    assert sorted(finding.path for finding in findings) == ["/app/link", "/app/out/far", "/app/out/up"]
    assert {finding.code for finding in findings} == {"artifact-left"}
    names = sorted(path.name for path in (trees / "s-0").iterdir())
    assert names == ["absolute", "answer.txt", "near", "run.sh"]
    content = write_archive(ArtifactManifest(steps=(StepSubmission(name="", artifacts=made),)), trees)
    again = tmp_path / "again"
    manifest = read_archive(content, again)
    assert manifest.steps[0].artifacts == made
    assert (again / "s-0" / "near").readlink() == Path("answer.txt")
    assert (again / "s-0" / "absolute").read_text() == "42\n"
    assert (again / "s-0" / "run.sh").stat().st_mode & 0o7777 == 0o755


@pytest.mark.parametrize("name", ["../outside", "/outside"])
def test_an_archive_that_leads_out_is_not_unpacked(name: str, tmp_path: Path) -> None:
    good = write_archive(ArtifactManifest(steps=()), tmp_path)
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive, tarfile.open(fileobj=io.BytesIO(good)) as old:
        for member in old:
            archive.addfile(member, old.extractfile(member))
        link = tarfile.TarInfo("link")
        link.type, link.linkname = tarfile.SYMTYPE, name
        archive.addfile(link)
    with pytest.raises(InvalidData, match="unpacked"):
        read_archive(buffer.getvalue(), tmp_path / "in")
    with pytest.raises(InvalidData):
        read_archive(b"not an archive", tmp_path / "in")
