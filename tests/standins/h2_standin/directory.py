"""The H2_DIR: finding it, its sockets, its roles and its pods."""

import hashlib
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

MARKER = ".h2-dir.txt"
EXPRESSION = re.compile(r"\{\{\s*(.*?)\s*\}\}")
COUNTED = re.compile(r"\.(Index|Count)\b")


class H2Error(Exception):
    """What h2 prints behind ``error:`` when it exits with 1."""


def h2_directory() -> Path:
    named = os.environ.get("H2_DIR")
    if named:
        path = Path(named).absolute()
        if not (path / MARKER).is_file():
            raise H2Error(f"H2_DIR={named} is not an h2 directory (missing {MARKER})")
        return path
    for path in (Path.cwd(), *Path.cwd().parents, Path.home() / ".h2"):
        if (path / MARKER).is_file():
            return path
    raise H2Error("no h2 directory found; run 'h2 init' to create one")


def socket_directory(h2: Path) -> Path:
    real = h2 / "sockets"
    if len(os.fsencode(real / "agent.long-agent-name-example.sock")) <= 100:
        return real
    digest = hashlib.sha256(os.fsencode(real)).hexdigest()[:16]
    short = Path(os.environ.get("TMPDIR") or "/tmp") / f"h2-{digest}"
    if not (short.is_symlink() and short.readlink() == real):
        real.mkdir(mode=0o700, exist_ok=True)
        short.unlink(missing_ok=True)
        short.symlink_to(real)
    return short


def agent_socket(h2: Path, name: str) -> Path:
    return socket_directory(h2) / f"agent.{name}.sock"


def find_socket(h2: Path, name: str) -> Path:
    found = sorted(socket_directory(h2).glob(f"*.{name}.sock"))
    if len(found) != 1:
        raise H2Error(f'cannot connect to agent "{name}"')
    return found[0]


@dataclass(frozen=True, kw_only=True)
class Launch:
    """One agent to be started."""

    name: str
    role: str = "default"
    pod: str = ""
    pod_index: int = 0
    variables: dict[str, str] = field(default_factory=dict)
    overrides: dict[str, str] = field(default_factory=dict)


def render(text: str, context: Mapping[str, Any]) -> str:
    """The part of Go's templates that roles and pods use: fields, and `add`."""

    def value(expression: str) -> Any:
        if re.fullmatch(r"-?\d+", expression):
            return int(expression)
        if expression.startswith("."):
            found: Any = context
            for part in expression[1:].split("."):
                found = found.get(part) if isinstance(found, Mapping) else None
            return "<no value>" if found is None else found
        function, *arguments = expression.split()
        if function == "add":
            return sum(int(value(argument)) for argument in arguments)
        raise H2Error(f'template: function "{function}" not defined')

    return EXPRESSION.sub(lambda match: str(value(match[1])), text)


def read_yaml(text: str) -> dict[str, Any]:
    import yaml  # slow, and only what launches agents reads any

    value: dict[str, Any] = yaml.safe_load(text) or {}
    return value


def load_role(h2: Path, launch: Launch) -> dict[str, Any]:
    context = {
        "AgentName": launch.name,
        "RoleName": launch.role,
        "PodName": launch.pod,
        "H2Dir": str(h2),
        "Var": launch.variables,
    }
    text = _read(h2 / "roles", launch.role, what="role")
    declared, text = _split_variables(text)
    context["Var"] = _with_defaults(declared, launch.variables)
    role = read_yaml(render(text, context))
    if not role.get("role_name"):
        raise H2Error(f'role "{launch.role}": role_name is required')
    return role | launch.overrides


def load_pod(h2: Path, template: str, variables: dict[str, str], pod: str | None) -> tuple[str, list[Launch]]:
    declared, text = _split_variables(_read(h2 / "pods", template, what="pod template"))
    if declared and (unknown := set(variables) - set(declared)):
        raise H2Error(f'pod template "{template}": unknown variables: {", ".join(sorted(unknown))}')
    values = _with_defaults(declared, variables)
    kept: list[str] = []

    def defer(match: re.Match[str]) -> str:
        if not COUNTED.search(match[0]):
            return match[0]
        kept.append(match[0])
        return f"__DEFERRED_{len(kept) - 1}__"

    rendered = render(EXPRESSION.sub(defer, text), {"Var": values, "H2Dir": str(h2)})
    content = read_yaml(rendered)
    name = pod or content.get("pod_name") or template

    def restored(value: str, index: int, count: int) -> str:
        whole = re.sub(r"__DEFERRED_(\d+)__", lambda match: kept[int(match[1])], value)
        return render(whole, {"Index": index, "Count": count})

    launches: list[Launch] = []
    for entry in content.get("agents", []):
        count = entry.get("count")
        plain = "__DEFERRED_" not in entry["name"]
        for index in range(1 if count is None else count):
            agent = f"{entry['name']}-{index + 1}" if plain and (count or 0) > 1 else entry["name"]
            fields = {
                key: {k: restored(str(v), index, count or 0) for k, v in (entry.get(key) or {}).items()}
                for key in ("vars", "overrides")
            }
            launches.append(
                Launch(
                    name=restored(agent, index, count or 0),
                    role=restored(entry.get("role") or "default", index, count or 0),
                    pod=name,
                    pod_index=len(launches),
                    variables=fields["vars"] | variables,
                    overrides=fields["overrides"],
                )
            )
    if not launches:
        raise H2Error(f'template "{template}" has no agents')
    return name, launches


def _read(folder: Path, name: str, *, what: str) -> str:
    for path in (folder / f"{name}.yaml.tmpl", folder / f"{name}.yaml"):
        if path.is_file():
            return path.read_text(encoding="utf-8")
    raise H2Error(f'{what} "{name}" not found in {folder}')


def _split_variables(text: str) -> tuple[dict[str, Any], str]:
    """The ``variables:`` block, and the text without it: it is read before anything is rendered."""
    lines = text.splitlines(keepends=True)
    start = next((i for i, line in enumerate(lines) if line.startswith("variables:")), None)
    if start is None:
        return {}, text
    end = next((i for i in range(start + 1, len(lines)) if lines[i].strip() and lines[i][0] not in " \t#"), len(lines))
    block = read_yaml("".join(lines[start:end]))
    return block["variables"] or {}, "".join(lines[:start] + lines[end:])


def _with_defaults(declared: dict[str, Any], given: dict[str, str]) -> dict[str, str]:
    defaults = {key: str(value["default"]) for key, value in declared.items() if "default" in value}
    values = defaults | given
    if missing := sorted(set(declared) - set(values)):
        raise H2Error(f"missing required variables: {', '.join(missing)}")
    return values
