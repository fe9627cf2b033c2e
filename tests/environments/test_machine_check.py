"""What this machine must have for environments."""

import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest

from proctor.core.errors import InfrastructureError
from proctor.environments.local import LocalProvider
from proctor.environments.machine_check import check_machine


async def test_the_disk_of_images_must_have_space_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    images = tmp_path / "images"

    class Storing(LocalProvider):
        async def storage_folders(self) -> Sequence[Path]:
            return (images,)

    provider = Storing(isolation=False, environments_dir=tmp_path)
    await check_machine(provider, [tmp_path])
    images.mkdir()
    whole = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: whole._replace(free=1000) if path == images else whole)
    with pytest.raises(InfrastructureError, match=r"images: the disk is full: 1\.0kB are free, and 256"):
        await check_machine(provider, [tmp_path])
