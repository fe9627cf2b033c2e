"""Presets: what a sandbox is made from.

A preset is a folder laid out like the H2_DIR that it makes, with a ``preset.toml`` beside::

    extends = "hooks"                      # optional: start from another preset's files
    description = "one sentence"           # optional
    model = "opus"                         # optional: what @MODEL@ stands for unless --model says otherwise

``@MODEL@`` in any file becomes the model. h2's own ``{{ … }}`` templates pass through untouched. Three places hold
presets: Proctor's own, the user's ``~/.h2/presets/<name>``, and any folder given by its path.
"""

import functools
import os
import re
import stat
from pathlib import Path
from typing import Any, Final

from proctor.core.errors import UsageError
from proctor.core.formatting import truncate_line
from proctor.core.record import Record
from proctor.core.user_files import parse_document, parse_toml, read_user_bytes
from proctor.sandboxes.credentials import parse_json_object
from proctor.sandboxes.first_run_dialogs import SETTINGS_PATH, answer_settings
from proctor.sandboxes.layout import ACCOUNT, MANIFEST, MARKER

BUILT_IN: Final = Path(__file__).with_name("presets")
DEFAULT_PRESET: Final = "hooks"
SETTINGS_FILE: Final = "preset.toml"
PLACEHOLDER: Final = b"@MODEL@"
SEED: Final = f"claude-config/default/{ACCOUNT}"

_KEYS: Final = {"extends", "description", "model"}
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_MODEL: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/@\[\]-]*")
_IGNORED: Final = {".git", ".DS_Store", "__pycache__"}
_RESERVED_FILES: Final = {MANIFEST, MARKER}
_SECRETS: Final = {".credentials.json", "auth.json"}
_SHOWN: Final = 100


class PresetFile(Record):
    """One file of a preset."""

    content: bytes
    executable: bool = False


class Preset(Record):
    """A preset as read from its folder, with those that it extends already applied.

    Attributes:
        name: what it is called; for one given by its path, the folder's name.
        files: by path relative to the H2_DIR.
        path: the folder, if it was given by its path.
        model: the model unless another is asked for; None if the preset has no use for one.
        seed: what is put into the ``.claude.json`` of a new sandbox, beside the account.
    """

    name: str
    files: dict[str, PresetFile]
    path: str | None = None
    description: str = ""
    model: str | None = None
    seed: bytes | None = None

    def choose_model(self, model: str | None) -> str | None:
        """The model to build with, when the user asks for `wanted` or for nothing.

        Raises:
            UsageError: this preset has no place for a model, or that is no model's name.
        """
        if model is None:
            return self.model
        if self.model is None:
            raise UsageError(
                f"the preset {self.name} sets no model", fix="leave --model out, or choose a preset with roles"
            )
        if not _MODEL.fullmatch(model):
            raise UsageError(f"{model!r} is not the name of a model")
        return model

    def render(self, model: str | None) -> dict[str, PresetFile]:
        """The files with the model filled in, and settings with which Claude Code asks nothing at its start."""
        value = (model or "").encode()
        rendered = {path: file.content.replace(PLACEHOLDER, value) for path, file in self.files.items()}
        return {
            path: PresetFile(
                content=answer_settings(content) if SETTINGS_PATH.fullmatch(path) else content,
                executable=self.files[path].executable,
            )
            for path, content in rendered.items()
        }


def user_presets() -> Path:
    """The folder in which a user keeps presets of their own."""
    return Path.home() / ".h2" / "presets"


def preset_names(folder: Path) -> list[str]:
    """Every preset that can be asked for by name, given the user's `folder`."""
    return sorted({path.parent.name for place in (BUILT_IN, folder) for path in place.glob(f"*/{SETTINGS_FILE}")})


def load_preset(preset: str, *, folder: Path) -> Preset:
    """Find and read a preset.

    Args:
        preset: a name, or a path (anything with a slash, or starting with a dot or ``~``).
        folder: where the user's own presets are.

    Raises:
        UsageError: there is none, or it breaks a rule.
    """
    return _load(preset, folder=folder, seen=())


def _load(wanted: str, *, folder: Path, seen: tuple[Path, ...]) -> Preset:
    place, by_path = _find(wanted, folder)
    if place in seen:
        raise UsageError("the preset extends itself", where=seen[0] / SETTINGS_FILE)
    # Proctor's own do not change while it runs.
    own, parent = (_read_built_in if place.parent == BUILT_IN else _read)(place, by_path)
    whole = own
    if parent:
        # A path in `extends` is relative to the preset that says so, not to wherever the user happens to be.
        spelled = str(place / parent) if parent.startswith(".") else parent
        whole = _extend_preset(own, _load(spelled, folder=folder, seen=(*seen, place)))
    if whole.model is None and any(PLACEHOLDER in file.content for file in whole.files.values()):
        raise UsageError("it uses @MODEL@ and names no model", where=place, fix=f"add one to its {SETTINGS_FILE}")
    return whole


def _read(place: Path, by_path: bool) -> tuple[Preset, str | None]:
    """A preset without those that it extends, and the name or path of the one that it extends."""
    settings = _settings(place)
    files = _files(place)
    seed = files.pop(SEED, None)
    if seed is not None:
        parse_json_object(seed.content, place / SEED)
    for path, file in files.items():
        if SETTINGS_PATH.fullmatch(path):
            parse_json_object(file.content, place / path)
    own = Preset(
        name=place.name,
        path=str(place) if by_path else None,
        description=settings.get("description", ""),
        model=settings.get("model"),
        files=files,
        seed=seed.content if seed else None,
    )
    if own.model is not None and not _MODEL.fullmatch(own.model):
        raise UsageError(f"{own.model!r} is not the name of a model", where=place / SETTINGS_FILE)
    return own, settings.get("extends")


_read_built_in: Final = functools.cache(_read)


def _extend_preset(preset: Preset, parent: Preset) -> Preset:
    """What `preset` becomes when it starts from `parent`."""
    return Preset(
        name=preset.name,
        path=preset.path,
        description=preset.description,
        model=preset.model or parent.model,
        files=parent.files | preset.files,
        seed=preset.seed or parent.seed,
    )


def _find(wanted: str, folder: Path) -> tuple[Path, bool]:
    if os.sep in wanted or wanted.startswith((".", "~")):
        place = Path(os.path.realpath(os.path.expanduser(wanted)))  # noqa: PTH111 - pathlib's raises for `~nobody`
        if not _is_preset(place):
            raise UsageError(f"is not a preset: it has no {SETTINGS_FILE}", where=truncate_line(str(place), _SHOWN))
        return place, True
    if _NAME.fullmatch(wanted):
        found = [base / wanted for base in (BUILT_IN, folder) if _is_preset(base / wanted)]
        if len(found) > 1:
            raise UsageError(
                f"{wanted} is also the name of a built-in preset", where=found[1], fix="rename that folder"
            )
        if found:
            return found[0].resolve(), False
    hint = f"; for the folder beside you, say ./{wanted}" if wanted and _is_preset(Path(wanted)) else ""
    raise UsageError(
        f"no preset is called {truncate_line(wanted, _SHOWN)!r}",
        fix=f"choose one of: {', '.join(preset_names(folder))}{hint}",
    )


def _is_preset(place: Path) -> bool:
    return os.path.isfile(place / SETTINGS_FILE)  # noqa: PTH113 - pathlib's raises for a name that is too long


def _settings(place: Path) -> dict[str, str]:
    where = place / SETTINGS_FILE
    settings: dict[str, Any] = parse_document(where, "the preset", parse_toml, "TOML", error=UsageError)
    for key, value in settings.items():
        if key not in _KEYS:
            raise UsageError(f"unknown key {key!r}", where=where, fix=f"use {', '.join(sorted(_KEYS))}")
        if not isinstance(value, str):
            raise UsageError(f"{key} must be a string", where=where)
    return settings


def _files(place: Path) -> dict[str, PresetFile]:
    files = {}
    for directory, names, leaves in os.walk(place):
        names[:] = sorted(set(names) - _IGNORED)
        for name in [*names, *sorted(set(leaves) - _IGNORED)]:
            path = Path(directory, name)
            relative = path.relative_to(place).as_posix()
            status = path.lstat()
            if stat.S_ISDIR(status.st_mode) or relative == SETTINGS_FILE:
                continue
            if not stat.S_ISREG(status.st_mode):
                raise UsageError("a preset holds plain files and folders only", where=path)
            if relative in _RESERVED_FILES or name in _SECRETS:
                raise UsageError("a preset must not bring this file: Proctor keeps it itself", where=path)
            files[relative] = PresetFile(
                content=read_user_bytes(path, "it"), executable=bool(status.st_mode & stat.S_IXUSR)
            )
    return files
