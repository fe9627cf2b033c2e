"""Settings that reach a grader's own programs: what Python, curl, pip, uv, apt and pytest read before they start.

Among them are the plugins that pytest loads by itself.

They are recorded before the agent starts. What it has added or changed of them is set aside before the grader runs: the
recorded version is put back, or the file is removed.
"""

import re
from collections.abc import Collection, Sequence
from typing import Final

from proctor.core.environment import Environment
from proctor.core.errors import InfrastructureError
from proctor.core.record import Record
from proctor.core.verdict import Finding
from proctor.grading.finding_codes import EnvironmentCode

# Arguments: a home. Its input: names of programs. Prints a digest, or what a link leads to, and the path of each file.
_LIST_SETTINGS: Final = r"""
home=$1
show() {
  for file; do
    if [ -L "$file" ]; then printf 'link:%s  %s\n' "$(readlink "$file")" "$file"
    elif [ -f "$file" ]; then sha256sum "$file"; fi
  done 2>/dev/null
}
show /pytest.ini /.pytest.ini /pytest.toml /.pytest.toml /pyproject.toml /tox.ini /setup.cfg /setup.py /conftest.py \
  /sitecustomize.py /usercustomize.py /uv.toml /.python-version \
  /etc/pip.conf /etc/wgetrc /etc/curlrc /etc/apt/apt.conf /etc/dpkg/dpkg.cfg /etc/python3*/sitecustomize.py
for below in /etc/apt/apt.conf.d /etc/dpkg/dpkg.cfg.d /etc/xdg/pip /etc/xdg/uv /etc/uv; do show "$below"/*; done
for place in "$home"; do
  for name in .curlrc .config/curlrc .netrc .wgetrc .pydistutils.cfg .pip/pip.conf .local/bin/env .cargo/env; do
    show "$place/$name"
  done
  show "$place"/.config/pip/* "$place"/.config/uv/*
  while read -r name; do show "$place/.local/bin/$name" "$place/.cargo/bin/$name"; done
done
find /usr /opt "$home" -xdev -path '*/lib*/python*' ! -name '*.pyc' ! -path '*/test/*' \
  \( -name 'sitecustomize*' -o -name 'usercustomize*' -o -name '*.pth' \) 2>/dev/null |
  while read -r file; do show "$file"; done
find /usr /opt "$home" -xdev -path '*-packages/*-info/entry_points.txt' -exec grep -ls pytest11 {} + 2>/dev/null |
  while read -r file; do show "$file"; done
"""
# Its input: paths of files. Prints the size of each, and after it what the file holds; -1 and nothing, if it is larger
# than the argument.
_SHOW_FILES: Final = r"""
while IFS= read -r file; do
  size=$(wc -c <"$file") && [ "$size" -le "$1" ] || size=-1
  echo $size
  [ "$size" = -1 ] || cat "$file"
done
"""
# Lines of `.pth` files that installers write; others that are code are somebody's own.
_KNOWN_PTH_LINE: Final = re.compile(
    r"import _virtualenv"
    r"|import os; var = 'SETUPTOOLS_USE_DISTUTILS'; enabled = os\.environ\.get\(var, '\w+'\) == 'local'; "
    r"enabled and __import__\('_distutils_hack'\)(\.add_shim\(\))?;?"
    r"|import (?P<finder>__editable___\w+_finder); (?P=finder)\.install\(\)"
)
# What the installers of uv and Rust write there, but for comments.
_KNOWN_ENV_LINE: Final = re.compile(
    r"""case ":\$\{PATH\}:" in|\*:"\$HOME/\.(local|cargo)/bin":\*\)|;;|\*\)|esac"""
    r"""|export PATH="\$HOME/\.(local|cargo)/bin:\$PATH\""""
)
_MAX_FILES: Final = 20_000
_MAX_BYTES: Final = 1_000_000
_MAX_ALL_BYTES: Final = 200_000_000
_MAX_FINDINGS: Final = 20


class SettingsFile(Record):
    """One such file: its digest, or where it leads; `content`: of small files, to put it back."""

    path: str
    digest: str
    content: bytes | None = None


async def list_settings(environment: Environment, programs: Sequence[str], *, path: str) -> dict[str, str]:
    """The files that are there, by path: their digests.

    Raises:
        InfrastructureError: the environment cannot be inspected.
    """
    asked = await environment.exec(
        ["/bin/sh", "-c", _LIST_SETTINGS, "sh", "/root"],
        stdin="".join(f"{name}\n" for name in programs if "/" not in name).encode(),
        variables={"PATH": path},
        cwd="/",
        timeout=120,
    )
    if asked.timed_out:
        raise InfrastructureError("the environment's settings cannot be listed")
    lines = asked.stdout.decode("utf-8", "surrogateescape").splitlines()[:_MAX_FILES]
    return {file: digest for digest, _, file in (line.partition("  ") for line in lines) if file.startswith("/")}


async def record_settings(environment: Environment, programs: Sequence[str], *, path: str) -> tuple[SettingsFile, ...]:
    """The settings of an environment that is still untouched."""
    listed = await list_settings(environment, programs, path=path)
    plain = [file for file, digest in listed.items() if not digest.startswith("link:")]
    contents = await _read_untouched(environment, plain, path)
    return tuple(SettingsFile(path=file, digest=digest, content=contents.get(file)) for file, digest in listed.items())


async def set_aside_settings(
    environment: Environment, before: Sequence[SettingsFile], programs: Sequence[str], *, path: str, needed: str = ""
) -> list[Finding]:
    """Put the settings back as they were, but for those that `needed`, the task's own text, names.

    Raises:
        InfrastructureError: the environment cannot be inspected.
    """
    known = {file.path: file for file in before}
    now = await list_settings(environment, programs, path=path)
    findings = []
    code = EnvironmentCode.SETTINGS_CHANGED
    for file in sorted({*now, *known}):
        old = known.get(file)
        if old is not None and now.get(file) == old.digest:
            continue
        content = await _read(environment, file) if file in now else None
        if file in now and _is_installers(file, content):
            continue
        if is_named_in(needed, file):
            kept = f"{code.meaning}; the task names it, so it stayed"
            findings.append(Finding(code=code.value, path=file, detail=kept))
            continue
        await _put_back(environment, old, file, path)
        if file.endswith(("/uv", "/uvx")) and content is None and not now.get(file, "link:").startswith("link:"):
            continue  # a large program, as many install it for themselves
        findings.append(Finding(code=code.value, path=file, detail=f"{code.meaning}; it was set aside"))
    return findings[:_MAX_FINDINGS]


def is_named_in(text: str, file: str, *, any_word: bool = False) -> bool:
    """Whether a text names a file: by its name, or, if that could be any word (`env`), by the end of its path.

    With `any_word`, such a word is enough. A name that is only part of a longer one is another file's, or a word's.
    """
    folder, _, name = file.rpartition("/")
    wanted = name if any_word or "." in name else f"{folder.rpartition('/')[2]}/{name}"
    return re.search(rf"(?<![\w.-]){re.escape(wanted)}(?![\w-]|\.\w)", text) is not None


async def _put_back(environment: Environment, old: SettingsFile | None, file: str, path: str) -> None:
    if old is not None and old.content is not None:
        await environment.put(old.content, file)
        return
    script = 'rm -rf -- "$1"' if old is None else 'ln -sfn -- "$2" "$1"'
    target = "" if old is None else old.digest.removeprefix("link:")
    if old is None or old.digest.startswith("link:"):
        await environment.exec(["/bin/sh", "-c", script, "sh", file, target], variables={"PATH": path}, cwd="/")


def _is_installers(file: str, content: bytes | None) -> bool:
    """Whether a file has nothing in it but what installers of packages and tools write."""
    if content is None:
        return False
    lines = [line.strip() for line in content.decode("utf-8", "replace").splitlines()]
    if file.endswith(".pth"):
        return all(not line.startswith(("import ", "import\t")) or _KNOWN_PTH_LINE.fullmatch(line) for line in lines)
    if file.endswith((".local/bin/env", ".cargo/env")):
        return all(not line or line.startswith("#") or _KNOWN_ENV_LINE.fullmatch(line) for line in lines)
    return False


async def _read_untouched(environment: Environment, files: Sequence[str], path: str) -> dict[str, bytes]:
    """What small files of an untouched environment hold, in one command: the engine copies each for ten times the cost.

    Raises:
        InfrastructureError: they cannot be read.
    """
    asked = await environment.exec(
        ["/bin/sh", "-c", _SHOW_FILES, "sh", str(_MAX_BYTES)],
        stdin="".join(f"{file}\n" for file in files).encode("utf-8", "surrogateescape"),
        variables={"PATH": path},
        cwd="/",
        timeout=120,
        output_bytes=_MAX_ALL_BYTES,
    )
    rest, contents = asked.stdout, dict[str, bytes]()
    for file in files:
        number, newline, rest = rest.partition(b"\n")
        size = int(number) if newline and number.strip().lstrip(b"-").isdigit() else None
        if size is None or len(rest) < size:
            raise InfrastructureError("the environment's settings cannot be read")
        if size >= 0:
            contents[file], rest = rest[:size], rest[size:]
    return contents


async def _read(environment: Environment, file: str) -> bytes | None:
    from proctor.grading.state.snapshot import read_small_file

    content = await read_small_file(environment, file)
    return content if content is not None and len(content) <= _MAX_BYTES else None


def guarded_programs(names: Collection[str]) -> tuple[str, ...]:
    """The programs of a grader that must not come from a home."""
    return tuple(
        dict.fromkeys((*names, "uv", "uvx", "pytest", "python", "python3", "curl", "bash", "sh", "cat", "echo"))
    )
