"""One hostile change in every form that some program takes for a diff."""

import subprocess
from collections.abc import Mapping
from pathlib import Path

BASE = {
    "calc.py": "one = 1\n\n\ndef double(number):\n    return number\n\n\nlast = 2\n",
    "conftest.py": "collect_ignore = []\n",
}
CHANGED = {
    "calc.py": "import unittest\n" + BASE["calc.py"].replace("return number", "raise unittest.SkipTest"),
    "conftest.py": "collect_ignore_glob = ['*']\n",
}
FORMS = ("unified", "zeros", "context", "indented", "ed")


def hostile_diff(form: str, folder: Path) -> bytes:
    """The change from BASE to CHANGED, as a diff of this form."""
    for side, files in (("a", BASE), ("b", CHANGED)):
        write(folder / side, files)
    if form == "ed":
        return b"".join(_ed_script(folder, name) for name in sorted(CHANGED))
    option = "-c" if form == "context" else "-u"
    made = _diff(folder, option, "-r", "-N", "a", "b")
    if form == "zeros":
        zeros = b"0" * 30
        lines = made.split(b"\n")
        return b"\n".join(
            line.replace(b" -", b" -" + zeros).replace(b" +", b" +" + zeros) if line.startswith(b"@@") else line
            for line in lines
        )
    return b"".join(b"    " + line + b"\n" for line in made.splitlines()) if form == "indented" else made


def write(folder: Path, files: Mapping[str, str]) -> Path:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


def _ed_script(folder: Path, name: str) -> bytes:
    made = _diff(folder, "-e", "-N", f"a/{name}", f"b/{name}")
    return f"diff -e -N a/{name} b/{name}\n--- a/{name}\n+++ b/{name}\n".encode() + made


def _diff(folder: Path, *arguments: str) -> bytes:
    return subprocess.run(["diff", *arguments], cwd=folder, capture_output=True, check=False).stdout
