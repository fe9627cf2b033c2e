"""Folders made from the templates that ship with the package: every ``{{word}}`` in names and texts is filled in."""

import importlib.resources
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from proctor.core.errors import UsageError

_SUFFIX: Final = ".in"  # so that no tool takes a template for a program
_WORD: Final = re.compile(r"\{\{(\w+)\}\}")


def write_templates(kinds: Mapping[str, Path], words: Mapping[str, str]) -> list[Path]:
    """Make the files of templates, each below its folder; the files.

    Raises:
        UsageError: one of them is there already, or cannot be written; nothing is overwritten.
    """
    files = {
        target / _filled(path, words): _filled(text, words)
        for kind, target in kinds.items()
        for path, text in _template(kind)
    }
    taken = next((file for file in files if file.exists()), None)
    if taken is not None:
        raise UsageError("this already exists; not overwritten", where=taken, fix="choose another folder")
    made: list[Path] = []
    try:
        for file, text in files.items():
            made.append(file)
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
            if text.startswith("#!"):
                file.chmod(0o755)
    except OSError as error:
        for file in made:
            with suppress(OSError):
                file.unlink()
        what = f"no folder can be made here: {error.strerror}"
        raise UsageError(what, where=next(iter(kinds.values())), fix="choose another one") from error
    return list(files)


def _template(kind: str) -> Iterator[tuple[str, str]]:
    root = importlib.resources.files("proctor") / "templates" / kind

    def walk(folder: Any, path: str) -> Iterator[tuple[str, str]]:
        for entry in sorted(folder.iterdir(), key=lambda entry: entry.name):
            if entry.is_dir():
                yield from walk(entry, f"{path}{entry.name}/")
            elif entry.name.endswith(_SUFFIX):
                yield f"{path}{entry.name.removesuffix(_SUFFIX)}", entry.read_text(encoding="utf-8")

    return walk(root, "")


def _filled(text: str, words: Mapping[str, str]) -> str:
    return _WORD.sub(lambda found: words[found[1]] if found[1] in words else found[0], text)


def folder_name(target: Path) -> str:
    """A name for what is made in a folder, from the folder's own."""
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", Path(os.path.abspath(target)).name).strip("-._")  # noqa: PTH100 - of links, too
    return name or "mine"
