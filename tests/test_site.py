"""The documentation as a site, and the check of what would be released."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

from paths import REPOSITORY


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"release_{name}", REPOSITORY / "release" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def staged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What the site is built from."""
    site = load("site")
    monkeypatch.setattr(site, "STAGED", tmp_path / "docs")
    site.stage()
    return tmp_path / "docs"


def test_links_and_pictures_that_lead_nowhere_are_found(tmp_path: Path) -> None:
    (tmp_path / "page").mkdir()
    (tmp_path / "index.html").write_text(
        '<h1 id="top">x</h1><img src="gone.svg"><a href="page/">ok</a><a href="page/#there">ok</a><a href="#top">ok</a>'
        '<a href="page/#nowhere">no</a><a href="https://example.org/x">not ours</a><a href="?q=1">ok</a>'
    )
    (tmp_path / "page/index.html").write_text('<p id="there"><a href="../">ok</a><a href="../other/">no</a>')
    assert load("site").broken_links(tmp_path) == [
        "index.html: gone.svg",
        "index.html: page/#nowhere",
        "page/index.html: ../other/",
    ]


def test_the_reference_has_every_command_and_pages_outside_the_folder_are_pages(staged: Path) -> None:
    commands = (staged / "reference/commands.md").read_text()
    for command in ("proctor runs delete", "proctor bench watch", "proctor plugin new", "proctor cluster drain"):
        assert f"## {command}\n" in commands
    assert "](contributing.md)" in (staged / "index.md").read_text()
    assert "](plugins.md)" in (staged / "contributing.md").read_text()
    assert (staged / "license.md").read_text().startswith("MIT License")


def test_every_page_of_the_site_is_in_its_navigation(staged: Path) -> None:
    listed = (REPOSITORY / "mkdocs.yml").read_text()
    pages = [path.relative_to(staged).as_posix() for path in staged.rglob("*.md")]
    assert [page for page in pages if f": {page}\n" not in f"{listed}\n"] == []


def test_the_oldest_and_the_newest_python_are_known_by_their_versions() -> None:
    known = load("check").interpreters()
    assert list(known) == sorted(known)
    assert min(known) >= (3, 11)


@pytest.mark.long
def test_the_site_is_built_and_every_link_leads_somewhere() -> None:
    assert load("site").main() == 0
