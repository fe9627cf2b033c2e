"""Repositories from a folder of clones, or from where they are published."""

from pathlib import Path

import pytest

from proctor.benchmarks.data import repository_url


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
