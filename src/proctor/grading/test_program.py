"""Which files of a tree a test command executes besides the tests: they decide the outcome as the tests do.

Scripts, and what build tools read: the target of a Makefile, the test script of a package.json, the wrappers of Gradle
and Maven. What these run in turn is followed, as far as it can be read without running it; of that, only files whose
names say that they are for testing count, since the rest may be what is tested.
"""

import json
import re
import shlex
from collections.abc import Callable, Iterator, Sequence
from pathlib import PurePosixPath
from typing import Any, Final

from proctor.core.submission import PatchKind
from proctor.grading.protected_patterns import exact_pattern
from proctor.workspaces import InvalidSubmission, patch_paths

ReadFile = Callable[[str], bytes | None]
"""Gives a file of the tree; None when there is no such file."""

_INTERPRETERS: Final = re.compile(
    r"(?:ba|da|k|z)?sh|python[\d.]*|pypy[\d.]*|node|bun|deno|ruby|perl|php|Rscript|julia|lua|tclsh|bats|busybox"
)
_WRAPPERS: Final = frozenset({"env", "exec", "nice", "stdbuf", "time", "timeout", "xvfb-run", "sudo", "command"})
_PACKAGE_MANAGERS: Final = frozenset({"npm", "pnpm", "yarn", "bun"})
_BUILD_FILES: Final = {
    "tox": ("tox.ini",),
    "nox": ("noxfile.py",),
    "just": ("justfile", "Justfile", ".justfile"),
    "rake": ("Rakefile", "rakefile"),
    "task": ("Taskfile.yml", "Taskfile.yaml"),
    "ant": ("build.xml",),
    "gradlew": ("gradlew", "gradle/wrapper/gradle-wrapper.jar", "gradle/wrapper/gradle-wrapper.properties"),
    "mvnw": ("mvnw", ".mvn/wrapper/maven-wrapper.jar", ".mvn/wrapper/maven-wrapper.properties"),
}
_MAKEFILES: Final = ("GNUmakefile", "makefile", "Makefile")
# What a line has in it, quotes aside, that runs a file of the tree: most lines need not be taken apart.
_MAY_RUN: Final = re.compile("|".join(["/", "make", _INTERPRETERS.pattern, *_PACKAGE_MANAGERS, *_BUILD_FILES]))
_QUOTES: Final = str.maketrans("", "", "\"'\\")
_ASSIGNMENT: Final = re.compile(r"[A-Za-z_]\w*=")
_FOR_TESTS: Final = re.compile(r"(?:^|[/_.-])(?:run)?(?:t|tests?|testing|specs?|checks?)(?:[/_.-]|$)", re.IGNORECASE)
_RULE: Final = re.compile(r"^([\w./ -]+?)\s*::?(?!=)(.*)$")
_MAX_DEPTH: Final = 4
_MAX_SCRIPT: Final = 200_000


def program_paths(command: Sequence[str], read: ReadFile) -> tuple[str, ...]:
    """The files of a tree that a test command executes, each once."""
    return tuple(dict.fromkeys(_command_paths(list(command), read, 0)))


def program_patterns(command: Sequence[str], read: ReadFile, oracle: bytes | None, kind: PatchKind) -> tuple[str, ...]:
    """Patterns that protect what a test command executes.

    What the oracle changes is not protected; where there is none, nothing is: a command may run what is to be changed.
    """
    if not command or oracle is None:
        return ()
    try:
        changed = patch_paths(oracle, kind)
    except InvalidSubmission:
        return ()
    return tuple(exact_pattern(path) for path in program_paths(command, read) if path not in changed)


def _command_paths(words: list[str], read: ReadFile, depth: int) -> Iterator[str]:
    words = _without_wrappers(words)
    if not words or depth > _MAX_DEPTH:
        return
    program, arguments = words[0], words[1:]
    name = PurePosixPath(program).name
    path = _tree_path(program)
    if name in _BUILD_FILES:
        yield from (file for file in _BUILD_FILES[name] if read(file) is not None)
    elif name in {"make", "gmake"}:
        yield from _make_paths(arguments, read, depth)
    elif name in _PACKAGE_MANAGERS and any(word in {"test", "t", "run"} for word in arguments):
        yield from _package_paths(arguments, read, depth)
    elif _INTERPRETERS.fullmatch(name):
        yield from _interpreter_paths(arguments, read, depth)
    elif "/" in program and path is not None:
        yield from _executed(path, read, depth)


def _executed(path: str, read: ReadFile, depth: int) -> Iterator[str]:
    """A file that is executed, and what it executes."""
    data = read(path)
    if data is not None and (depth == 0 or _FOR_TESTS.search(path)):
        yield path
        yield from _script_paths(data, read, depth)


def _without_wrappers(words: list[str]) -> list[str]:
    """A command without assignments and without the programs that only start another."""
    while words:
        if _ASSIGNMENT.match(words[0]):
            words = words[1:]
        elif PurePosixPath(words[0]).name in _WRAPPERS:
            words = words[1:]
            while words and (words[0].startswith("-") or re.fullmatch(r"[\d.]+[smhd]?", words[0])):
                words = words[1:]
        else:
            break
    return words


def _interpreter_paths(arguments: list[str], read: ReadFile, depth: int) -> Iterator[str]:
    for number, word in enumerate(arguments):
        if word == "-m":
            return  # a module, which is found wherever the interpreter looks
        if word.startswith("-") and word.rstrip("c").lstrip("-") in {"", "e", "eu", "u", "x", "ex", "eux"}:
            if word.endswith("c"):
                for inner in arguments[number + 1 : number + 2]:
                    yield from _text_paths(inner, read, depth)
                return
            continue
        if word.startswith("-"):
            continue
        path = _tree_path(word)
        if path is not None:
            yield from _executed(path, read, depth)
        if word != "run":  # of deno and bun
            return


def _script_paths(data: bytes, read: ReadFile, depth: int) -> Iterator[str]:
    """What a shell script runs; scripts in other languages are not followed."""
    first = data[:200].split(b"\n", 1)[0]
    if not first.startswith(b"#!") or re.search(rb"\b(?:ba|da|k|z)?sh\b", first):
        yield from _text_paths(data[:_MAX_SCRIPT].decode("utf-8", "replace"), read, depth)


def _text_paths(text: str, read: ReadFile, depth: int) -> Iterator[str]:
    """What the lines of a shell script run."""
    for line in text.replace("\\\n", " ").splitlines():
        if _MAY_RUN.search(line.translate(_QUOTES)) is None:
            continue
        try:
            words = list(shlex.shlex(line, posix=True, punctuation_chars=True))
        except ValueError:
            continue
        command: list[str] = []
        for word in [*words, ";"]:
            if word and set(word) <= set("();<>|&"):
                yield from _command_paths(command, read, depth + 1)
                command = []
            else:
                command.append(word)


def _make_paths(arguments: list[str], read: ReadFile, depth: int) -> Iterator[str]:
    named = [arguments[at + 1] for at, word in enumerate(arguments[:-1]) if word in {"-f", "--file", "--makefile"}]
    file = next((name for name in (*named, *_MAKEFILES) if read(name) is not None), None)
    data = read(file) if file is not None else None
    if file is None or data is None:
        return
    yield file
    recipes = _recipes(data[:_MAX_SCRIPT].decode("utf-8", "replace"))
    wanted = [word for word in arguments if not word.startswith("-") and word not in named and "=" not in word]
    waiting = wanted or list(recipes)[:1]
    seen: set[str] = set()
    while waiting:
        target = waiting.pop()
        if target in seen or target not in recipes:
            continue
        seen.add(target)
        needs, lines = recipes[target]
        waiting += needs
        for line in lines:
            yield from _text_paths(line.lstrip("@-+ "), read, depth)


def _recipes(text: str) -> dict[str, tuple[list[str], list[str]]]:
    """The rules of a Makefile: what each target needs, and its lines."""
    found: dict[str, tuple[list[str], list[str]]] = {}
    current: list[str] = []
    for line in text.replace("\\\n", " ").splitlines():
        if line.startswith("\t"):
            for target in current:
                found[target][1].append(line.strip())
        elif match := _RULE.match(line):
            current = match[1].split()
            for target in current:
                found.setdefault(target, ([], []))[0].extend(match[2].split("#")[0].split())
        elif line.strip():
            current = []
    return found


def _package_paths(arguments: list[str], read: ReadFile, depth: int) -> Iterator[str]:
    data = read("package.json")
    if data is None:
        return
    yield "package.json"
    try:
        document: Any = json.loads(data)
    except (ValueError, RecursionError):
        return
    scripts = document.get("scripts") if isinstance(document, dict) else None
    words = [word for word in arguments if not word.startswith("-") and word != "run"]
    name = "test" if not words or words[0] in {"test", "t"} else words[0]
    for script in (f"pre{name}", name, f"post{name}"):
        text = scripts.get(script) if isinstance(scripts, dict) else None
        if isinstance(text, str):
            yield from _text_paths(text, read, depth)


def _tree_path(word: str) -> str | None:
    """A word as a path of the tree; None when it leads out of it."""
    path = PurePosixPath(word)
    if path.is_absolute() or ".." in path.parts or not path.parts:
        return None
    return str(path)
