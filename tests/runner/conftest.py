from pathlib import Path

import pytest

from sessions import Toys


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("PROCTOR_CACHE", raising=False)


@pytest.fixture
def toys(tmp_path: Path) -> Toys:
    return Toys(tmp_path)
