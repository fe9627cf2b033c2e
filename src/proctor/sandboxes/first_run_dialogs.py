"""The questions that Claude Code asks at its start, answered beforehand: nobody watches the screens of a sandbox.

Whether it may use a folder, an API key, the servers of a repository, or bypass mode: each of these questions waits for
a person, and a message that h2 types meanwhile answers it, mostly with "No, exit".
"""

import functools
import json
import os
import re
import subprocess
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from proctor.core.trees import read_regular_file
from proctor.core.user_files import parse_json, read_limited
from proctor.sandboxes.layout import ACCOUNT, config_directory

_SETTINGS: Final = "settings.json"
SETTINGS_PATH: Final = re.compile(r"claude-config/[^/]+/settings\.json")
# For everything that runs in a sandbox. What `.claude.json` says about folders is no substitute for the first: trust in
# a folder does not extend to git work trees below it.
VARIABLES: Final = {
    # Every folder is trusted.
    "CLAUDE_CODE_SANDBOXED": "1",
    # Root may use bypass mode.
    "IS_SANDBOX": "1",
}
_KEY: Final = "ANTHROPIC_API_KEY"
# As much of a key as Claude Code stores of one that a person approves.
_KEY_TAIL: Final = 20
_INSTRUCTIONS: Final = ("CLAUDE.md", "CLAUDE.local.md", ".claude/CLAUDE.md")
_IMPORTS_ASKED: Final = "hasClaudeMdExternalIncludesWarningShown"


@functools.lru_cache(maxsize=16)  # many sandboxes are made from one preset
def answer_settings(content: bytes) -> bytes:
    """A ``settings.json`` with an answer to each question that it leaves open.

    In `.claude.json`, which a reset keeps, they would not last: Claude Code moves them to its settings, which a reset
    makes anew.
    """
    settings: dict[str, Any] = parse_json(content)
    answers: dict[str, Any] = {"skipDangerousModePermissionPrompt": True, "enableAllProjectMcpServers": True}
    permissions = settings.get("permissions")
    if not (isinstance(permissions, dict) and permissions.get("defaultMode") == "auto"):
        # Auto mode asks whether it may be the default; and its checks are made by the provider, or else by a dialog.
        answers["disableAutoMode"] = "disable"
    missing = {key: value for key, value in answers.items() if key not in settings}
    return content if not missing else json.dumps({**settings, **missing}, indent=2).encode() + b"\n"


def approve_key(account: dict[str, Any], key: str) -> bool:
    """Note in the content of a ``.claude.json`` that this API key may be used; whether that was not noted yet."""
    responses = account.get("customApiKeyResponses")
    responses = account["customApiKeyResponses"] = responses if isinstance(responses, dict) else {}
    approved = responses.get("approved")
    approved = responses["approved"] = approved if isinstance(approved, list) else []
    tail = key.strip()[-_KEY_TAIL:]
    if tail in approved:
        return False
    approved.append(tail)
    return True


def preset_account(home: Path, environ: Mapping[str, str], folders: Iterable[Path]) -> bytes | None:
    """The sandbox's ``.claude.json`` with an answer to what Claude Code asks about API keys and about these folders.

    The keys of `environ` and of the sandbox's settings may be used. Files that the CLAUDE.md of a folder imports from
    outside are not read, which is what Claude Code recommends.

    None when it needs no change, or is damaged or no plain file, and is left alone.
    """
    variables = (_read_object(home, _SETTINGS) or {}).get("env")
    given = (environ.get(_KEY), variables.get(_KEY) if isinstance(variables, dict) else None)
    keys = [key for key in given if isinstance(key, str) and key.strip()]
    account = _read_object(home, ACCOUNT) if os.path.lexists(config_directory(home) / ACCOUNT) else {}
    if account is None:
        return None
    changed = [approve_key(account, key) for key in keys]
    changed += [
        _decline_imports(account, key) for folder in folders if _may_import(folder) for key in _projects(folder)
    ]
    return json.dumps(account, indent=2).encode() + b"\n" if any(changed) else None


def folders_in(command: Iterable[str], cwd: Path) -> list[Path]:
    """Where a command may start agents: here, and in the folders that it names, as in ``--var working_dir=/repo``."""
    words = (word.rpartition("=")[2] for word in command)
    return [cwd, *(Path(word) for word in words if word.startswith("/") and os.path.isdir(word))]  # noqa: PTH112 - any text


def _may_import(folder: Path) -> bool:
    """Whether a file with instructions that Claude Code reads in this folder may import another."""
    try:
        folder = Path(os.path.realpath(folder))
    except OSError:  # where we are, and it was removed
        return False
    for place in (folder, *folder.parents):
        for name in _INSTRUCTIONS:
            with suppress(OSError, ValueError):
                if b"@" in read_limited(place / name):
                    return True
    return False


def _projects(folder: Path) -> set[str]:
    """The names under which Claude Code may keep what was answered about a folder: its repository's, or its own."""
    command = ["git", "-C", str(folder), "rev-parse", "--path-format=absolute", "--show-toplevel", "--git-common-dir"]
    try:
        found = subprocess.run(command, capture_output=True, text=True, check=False).stdout.splitlines()
    except OSError:
        found = []
    return {str(folder.resolve()), *(path.removesuffix("/.git") for path in found)}


def _decline_imports(account: dict[str, Any], project: str) -> bool:
    projects = account.get("projects")
    projects = account["projects"] = projects if isinstance(projects, dict) else {}
    known = projects.get(project)
    known = projects[project] = known if isinstance(known, dict) else {}
    if known.get(_IMPORTS_ASKED) is True:
        return False
    known[_IMPORTS_ASKED] = True
    return True


def _read_object(home: Path, name: str) -> dict[str, Any] | None:
    with suppress(ValueError):
        value = parse_json(read_regular_file(config_directory(home), name) or b"null")
        if isinstance(value, dict):
            return value
    return None
