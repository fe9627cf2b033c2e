"""Pod templates: found in a preset or given as a file, and what variables they take."""

import hashlib
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from proctor.core.errors import UsageError
from proctor.core.record import Record
from proctor.core.user_files import parse_yaml, read_user_bytes, read_user_file

DEFAULT_TEMPLATE: Final = "benchmark"
_SUFFIXES: Final = (".yaml.tmpl", ".yaml")
_NAME: Final = re.compile(r"[a-z0-9][a-z0-9-]*")
# Given by us, where a template asks for them.
WORKING_DIR: Final = "working_dir"
MODEL: Final = "model"


class PodTemplate(Record):
    """A pod template.

    Attributes:
        text: the template itself, as h2 reads it.
        declared: the variables that it takes; whether each must be given.
        roles: files for the sandbox's ``roles`` that came with it.
    """

    name: str
    text: str
    declared: dict[str, bool]
    roles: dict[str, bytes]

    def digest(self, preset: Mapping[str, bytes]) -> str:
        """Identifies all that a pod is made from: the template, its roles, and the files of the preset."""
        found = hashlib.sha256(self.text.encode())
        for name, content in sorted({**preset, **{f"roles/{role}": text for role, text in self.roles.items()}}.items()):
            found.update(f"\0{name}\0".encode() + content)
        return found.hexdigest()[:12]

    def values(self, given: Mapping[str, str], *, working_dir: str, model: str | None) -> dict[str, str]:
        """What to launch it with: what the user gives, and ours where the template asks for it."""
        ours = {WORKING_DIR: working_dir, MODEL: model}
        wanted = {name: value for name, value in ours.items() if name in self.declared and value is not None}
        return {**wanted, **given}


def is_file(template: str) -> bool:
    """Whether a template is given by its path: anything with a slash, or with the suffix of a file."""
    return "/" in template or template.endswith(_SUFFIXES)


def load_template(template: str | None, preset: Mapping[str, bytes]) -> PodTemplate:
    """Find and read a template.

    Args:
        template: a name in the preset, or the path of a file; by default `DEFAULT_TEMPLATE`. Roles of its own are in a
            folder ``roles`` beside the file.
        preset: the files of the preset, by path relative to the H2_DIR.

    Raises:
        UsageError: there is no such template, or it cannot be read.
    """
    if template is not None and is_file(template):
        return _read(Path(template))
    name = template or DEFAULT_TEMPLATE
    for suffix in _SUFFIXES:
        content = preset.get(f"pods/{name}{suffix}")
        if content is not None:
            return _parsed(name, content.decode("utf-8", "replace"), f"pods/{name}{suffix}", {})
    there = sorted({Path(path).name.split(".")[0] for path in preset if path.startswith("pods/")})
    has = f"it has {', '.join(there)}" if there else "it has none"
    raise UsageError(
        f"the preset has no pod template {name!r} ({has})", fix="choose another --preset, or give --pod-template FILE"
    )


def load_checked_template(
    template_name: str | None, preset: Mapping[str, bytes], given: Mapping[str, str]
) -> PodTemplate:
    """Find and read a template, and check that it can be launched with these variables.

    Raises:
        UsageError: it cannot.
    """
    template = load_template(template_name, preset)
    if WORKING_DIR in given:
        raise UsageError(f"Proctor sets {WORKING_DIR} by itself", fix="leave that variable out")
    unknown = sorted(given.keys() - template.declared.keys())
    if unknown:
        names = ", ".join(sorted(template.declared.keys() - {WORKING_DIR})) or "none"
        raise UsageError(f"the pod template {template.name} has no variable {unknown[0]!r}", fix=f"it takes {names}")
    needed = {name for name, required in template.declared.items() if required} - {WORKING_DIR, MODEL}
    missing = sorted(needed - given.keys())
    if missing:
        raise UsageError(
            f"the pod template {template.name} needs the variable {missing[0]!r}", fix=f"give --var {missing[0]}=…"
        )
    return template


def _read(path: Path) -> PodTemplate:
    text = read_user_file(path, "the pod template")
    folder = path.parent / "roles"
    roles = {
        file.name: read_user_bytes(file, "a role of the pod template")
        for file in sorted(folder.glob("*.yaml*"))
        if file.is_file()
    }
    name = path.name
    for suffix in _SUFFIXES:
        name = name.removesuffix(suffix)
    if not _NAME.fullmatch(name):
        raise UsageError("a pod template's name has lower-case letters, digits and dashes", where=path)
    return _parsed(name, text, path, roles)


def _parsed(name: str, text: str, where: object, roles: dict[str, bytes]) -> PodTemplate:
    return PodTemplate(name=name, text=text, declared=_declared(text, where), roles=roles)


def _declared(text: str, where: object) -> dict[str, bool]:
    """The ``variables:`` block. The rest is a Go template, and no YAML before it is rendered."""
    lines = text.splitlines(keepends=True)
    start = next((index for index, line in enumerate(lines) if line.startswith("variables:")), None)
    if start is None:
        return {}
    inner = range(start + 1, len(lines))
    end = next((index for index in inner if lines[index].strip() and lines[index][0] not in " \t#"), len(lines))
    try:
        block: Any = parse_yaml("".join(lines[start:end]))
    except ValueError as error:
        raise UsageError(f"the variables of the pod template cannot be read: {error}", where=where) from error
    found = block.get("variables") if isinstance(block, dict) else None
    if found is not None and not isinstance(found, dict):
        raise UsageError("the variables of the pod template are not a table", where=where)
    return {str(key): not (isinstance(value, dict) and "default" in value) for key, value in (found or {}).items()}
