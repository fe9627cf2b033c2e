from pathlib import Path

import pytest

from proctor.core.plugins import entry_points


def _install(site: Path, name: str) -> None:
    folder = site / f"{name}-1.0.dist-info"
    folder.mkdir(parents=True)
    (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (folder / "entry_points.txt").write_text(f"[proctor.agents]\n{name} = {name}:Agent\n")


def test_packages_that_are_installed_meanwhile_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert [entry.value for entry in entry_points("proctor.agents", name="nop")] == ["proctor.agents.nop:Nop"]
    monkeypatch.syspath_prepend(tmp_path)
    assert not entry_points("proctor.agents", name="first_of_mine")
    for name in ("first_of_mine", "second_of_mine"):
        _install(tmp_path, name)
        assert {entry.name for entry in entry_points("proctor.agents")} > {name, "nop"}
        assert not entry_points("proctor.environments", name=name)
