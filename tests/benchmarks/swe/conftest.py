"""Worlds of instances, made once for a session."""

from pathlib import Path

import pytest

from swe_other_worlds import EvoWorld, FeatureWorld, ProWorld
from swe_verified_world import VerifiedWorld
from swe_world import python_image


@pytest.fixture(scope="session")
def swe_python(tmp_path_factory: pytest.TempPathFactory) -> str:
    return python_image(tmp_path_factory.mktemp("swe_python"))


@pytest.fixture(scope="session")
def verified(tmp_path_factory: pytest.TempPathFactory, swe_python: str) -> VerifiedWorld:
    return VerifiedWorld(tmp_path_factory.mktemp("swe_verified"), swe_python)


@pytest.fixture(scope="session")
def pro(tmp_path_factory: pytest.TempPathFactory, swe_python: str) -> ProWorld:
    return ProWorld(tmp_path_factory.mktemp("swe_pro"), swe_python)


@pytest.fixture(scope="session")
def evo(tmp_path_factory: pytest.TempPathFactory, swe_python: str) -> EvoWorld:
    return EvoWorld(tmp_path_factory.mktemp("swe_evo"), swe_python)


@pytest.fixture(scope="session")
def feature(tmp_path_factory: pytest.TempPathFactory, swe_python: str) -> FeatureWorld:
    return FeatureWorld(tmp_path_factory.mktemp("swe_feature"), swe_python)


@pytest.fixture
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of the test's own: fetched data and bases of others are out of sight."""
    monkeypatch.setenv("PROCTOR_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"
