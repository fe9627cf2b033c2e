"""The image that a repository describes itself, for environments in containers: its devcontainer, or its Dockerfile.

What is built are the steps up to where the Dockerfile copies folders of the repository: those before install what the
program needs, those after build the program, and the workspace has that.
"""

import json
import re
from pathlib import PurePosixPath
from typing import Any, Final

import msgspec

from proctor.benchmarks.suites.installed import IMAGE_DIR
from proctor.core.record import Record
from proctor.mining.languages.base import EnvironmentPlan, Project, SetupFailed
from proctor.mining.settings import MineSettings

_DEVCONTAINERS: Final = (".devcontainer/devcontainer.json", ".devcontainer.json")
_COMMENT: Final = re.compile(r'("(?:\\.|[^"\\])*")|//[^\n]*|/\*.*?\*/', re.DOTALL)
_TRAILING_COMMA: Final = re.compile(r",(\s*[}\]])")
_INSTRUCTION: Final = re.compile(r"^[ \t]*(\w+)[ \t]+((?:[^\\\n]|\\.|\\\n)*)\n?", re.MULTILINE)
_COPY: Final = frozenset({"COPY", "ADD"})
# Caches of the newer builder: a step does the same without.
_CACHE_MOUNT: Final = re.compile(r"--mount=type=cache\S*\s+")


class DescribedImage(Record):
    """A ready image, or a Dockerfile and the files of the repository that it copies."""

    image: str | None = None
    dockerfile: str = ""
    files: dict[str, bytes] = msgspec.field(default_factory=dict)

    @property
    def python(self) -> str | None:
        """The version of Python that it is made from, where its name says so."""
        found = re.search(r"\bpython:(?:\d-)?(3\.\d+)", self.image or self.dockerfile)
        return found[1] if found else None


def described_image(project: Project, settings: MineSettings, *, any_dockerfile: bool) -> DescribedImage | None:
    """What the settings name, or the devcontainer; with `any_dockerfile` also the Dockerfile at the top.

    Raises:
        SetupFailed: what is named is not there, or cannot be read.
    """
    named = settings.setup.dockerfile
    if settings.setup.image is not None:
        return None
    if named is not None:
        return _from_dockerfile(project, named, str(PurePosixPath(named).parent))
    for path in _DEVCONTAINERS:
        if path in project.paths:
            return _from_devcontainer(project, path)
    return _from_dockerfile(project, "Dockerfile", ".") if any_dockerfile and "Dockerfile" in project.paths else None


def with_image(plan: EnvironmentPlan, described: DescribedImage) -> EnvironmentPlan:
    """An environment that is made in a described image."""
    runtimes = {**plan.file.runtimes}
    if "python" in runtimes and described.python is not None:
        runtimes["python"] = described.python
    files = {f"{IMAGE_DIR}/{name}": data for name, data in described.files.items()}
    if described.image is None:
        files[f"{IMAGE_DIR}/Dockerfile"] = described.dockerfile.encode()
    return EnvironmentPlan(
        file=msgspec.structs.replace(plan.file, image=described.image, runtimes=runtimes),
        files={**plan.files, **files},
    )


def _from_devcontainer(project: Project, path: str) -> DescribedImage:
    document = _parse(project.text(path), path)
    given = document.get("build")
    build: dict[str, Any] = given if isinstance(given, dict) else {}
    dockerfile = build.get("dockerfile") or document.get("dockerFile")
    if isinstance(dockerfile, str):
        folder = PurePosixPath(path).parent
        context = build.get("context") or document.get("context") or "."
        return _from_dockerfile(project, _joined(folder, dockerfile), _joined(folder, str(context)))
    image = document.get("image")
    if isinstance(image, str) and "${" not in image:
        return DescribedImage(image=image)
    raise SetupFailed(
        f"{path} names neither an image nor a Dockerfile; name one in [setup] image or [setup] dockerfile",
        code="devcontainer",
    )


def _parse(text: str, path: str) -> dict[str, Any]:
    """A devcontainer's file: JSON with comments and trailing commas."""
    plain = _TRAILING_COMMA.sub(r"\1", _COMMENT.sub(lambda found: found[1] or "", text))
    try:
        document = json.loads(plain)
    except ValueError as error:
        raise SetupFailed(
            f"{path} cannot be read ({error}); name an image in [setup] image", code="devcontainer"
        ) from None
    return document if isinstance(document, dict) else {}


def _joined(folder: PurePosixPath, path: str) -> str:
    """A path of the repository, with its ``..`` resolved."""
    parts: list[str] = []
    for part in (folder / path).parts:
        if part == "..":
            parts = parts[:-1]
        elif part != ".":
            parts.append(part)
    return "/".join(parts) or "."


def _from_dockerfile(project: Project, path: str, context: str) -> DescribedImage:
    text = project.text(path)
    if not text:
        raise SetupFailed(f"there is no {path}; name another in [setup] dockerfile", code="dockerfile")
    text = _CACHE_MOUNT.sub("", text)
    files: dict[str, bytes] = {}
    end = len(text)
    for found in _INSTRUCTION.finditer(text):
        if found[1].upper() in _COPY:
            copied = _copied_files(project, context, found[2])
            if copied is None:
                end = found.start()
                break
            files |= copied
    return DescribedImage(dockerfile=text[:end], files=files)


def _copied_files(project: Project, context: str, rest: str) -> dict[str, bytes] | None:
    """The files of the repository that an instruction copies, by their paths in the build; None for folders of it."""
    words = rest.replace("\\\n", " ").split()
    if any(word.startswith("--from") for word in words):
        return {}
    if rest.lstrip().startswith("["):
        words = re.findall(r'"([^"]+)"', rest)
    sources = [word for word in words if not word.startswith("--")][:-1]
    found: dict[str, bytes] = {}
    for source in sources:
        if source.startswith(("http://", "https://", "<<")):
            continue
        pattern = _joined(PurePosixPath(context), source.lstrip("/"))
        names = [name for name in project.paths if pattern != "." and PurePosixPath(name).match(pattern)]
        names = [name for name in names if len(PurePosixPath(name).parts) == len(PurePosixPath(pattern).parts)]
        if not names and not any(sign in source for sign in "*?["):
            return None  # a folder, or a variable
        prefix = "" if context == "." else f"{context}/"
        found |= {name.removeprefix(prefix): data for name, data in project.manifests(names).items()}
    return found
