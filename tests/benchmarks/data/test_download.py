"""Data from a git repository and from the hub."""

import asyncio
import json
import subprocess
import sys
from pathlib import Path

import pytest
from aiohttp import web

from proctor.benchmarks.data import download_from_git, download_from_hub, repository_url
from proctor.core.errors import InfrastructureError


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "origin"
    folder.mkdir()

    def git(*words: str) -> None:
        subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a@b", *words], cwd=folder, check=True)

    git("init", "-q", "-b", "main")
    (folder / "tasks.jsonl").write_text("one")
    git("add", ".")
    git("commit", "-qm", "one")
    git("tag", "v1")
    (folder / "tasks.jsonl").write_text("two")
    git("commit", "-qam", "two")
    return folder


def _head(repository: Path, name: str) -> str:
    return subprocess.check_output(["git", "rev-parse", name], cwd=repository, text=True).strip()


@pytest.mark.parametrize(("revision", "name", "text"), [(None, "main", "two"), ("v1", "v1", "one")])
def test_a_repository_comes_without_its_history(
    repository: Path, tmp_path: Path, revision: str | None, name: str, text: str
) -> None:
    into = tmp_path / "into"
    assert download_from_git(str(repository), into, revision=revision) == _head(repository, name)
    assert {path.name: path.read_text() for path in into.iterdir()} == {"tasks.jsonl": text}


def test_a_commit_can_be_named(repository: Path, tmp_path: Path) -> None:
    commit = _head(repository, "v1")
    assert download_from_git(repository.as_uri(), tmp_path / "into", revision=commit) == commit


@pytest.mark.parametrize("revision", ["nowhere", "--upload-pack=touch harm"])
def test_a_revision_that_is_not_there_is_reported_in_one_sentence(
    repository: Path, tmp_path: Path, revision: str
) -> None:
    with pytest.raises(InfrastructureError, match="--from PATH"):
        download_from_git(str(repository), tmp_path / "into", revision=revision)
    assert not (tmp_path / "into" / "harm").exists()


async def test_the_hubs_files_come_with_their_revision(tmp_path: Path) -> None:
    content = json.dumps({"id": 1}).encode()
    sha = "a" * 40

    async def info(_: web.Request) -> web.Response:
        return web.json_response(
            {"id": "org/set", "sha": sha, "siblings": [{"rfilename": "data/test.jsonl"}, {"rfilename": "README.md"}]}
        )

    async def file(_: web.Request) -> web.Response:
        return web.Response(body=content, headers={"X-Repo-Commit": sha, "ETag": '"etag"'})

    async def tree(_: web.Request) -> web.Response:
        files = [("data/test.jsonl", len(content)), ("README.md", 1)]
        return web.json_response(
            [{"type": "file", "path": path, "size": size, "oid": "0" * 40} for path, size in files]
        )

    app = web.Application()
    app.router.add_get(f"/api/datasets/org/set/tree/{sha}", tree)
    app.router.add_get("/api/datasets/org/set", info)
    app.router.add_get(f"/api/datasets/org/set/revision/{sha}", info)
    app.router.add_get(f"/datasets/org/set/resolve/{sha}/data/test.jsonl", file)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    host, port = runner.addresses[0][:2]
    script = (
        "import sys; from pathlib import Path; from proctor.benchmarks.data import download_from_hub; "
        "print(download_from_hub('org/set', ['data/*.jsonl'], Path(sys.argv[1])))"
    )
    into = tmp_path / "work" / "into"
    into.mkdir(parents=True)
    try:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-c",
            script,
            str(into),
            env={"HF_ENDPOINT": f"http://{host}:{port}", "HF_HOME": str(tmp_path / "hf"), "HF_HUB_DISABLE_XET": "1"},
            stdout=asyncio.subprocess.PIPE,
        )
        out, _ = await process.communicate()
    finally:
        await runner.cleanup()
    assert out.decode().strip() == sha
    assert [str(path.relative_to(into)) for path in into.rglob("*") if path.is_file()] == ["data/test.jsonl"]


def test_a_hub_that_cannot_be_reached_is_reported_in_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(InfrastructureError, match="--from PATH"):
        download_from_hub("org/set", ["*.jsonl"], tmp_path / "into")


def test_without_git_the_sentence_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(InfrastructureError, match="git does not start: No such file or directory"):
        download_from_git("https://localhost/none", tmp_path / "into")


def test_a_repository_is_had_from_a_folder_of_clones_or_from_github(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PROCTOR_REPOSITORIES", str(tmp_path))
    assert repository_url("acme/blue") == "https://github.com/acme/blue"
    for form in ("acme__blue/.git", "acme/blue/.git"):
        (tmp_path / form).mkdir(parents=True)
        for name in ("acme/blue", "https://github.com/acme/blue.git"):
            assert repository_url(name) == str((tmp_path / form).parent)
    monkeypatch.delenv("PROCTOR_REPOSITORIES")
    assert repository_url("acme/blue") == "https://github.com/acme/blue"
    assert repository_url("https://example.org/acme/blue.git") == "https://example.org/acme/blue.git"
