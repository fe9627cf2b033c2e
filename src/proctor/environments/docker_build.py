"""Images that are made here: from a folder with a Dockerfile, under a tag that names all that they are made from."""

import hashlib
import io
import os
import re
import tarfile
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Final

from aiodocker import Docker, DockerError

from proctor.core.errors import InfrastructureError, InvalidData
from proctor.environments.docker_engine import LABEL, engine_errors

_FROM: Final = re.compile(
    r"^(?P<before>[ \t]*FROM[ \t]+(?:--platform=\S+[ \t]+)?)(?P<image>\S+)(?P<after>.*)$", re.IGNORECASE | re.MULTILINE
)
_STAGE: Final = re.compile(r"[ \t]+AS[ \t]+(\S+)", re.IGNORECASE)
_DETAIL_LINES: Final = 5
# Whoever looks at the images of an engine sees which ones were made here.
BUILT_LABELS: Final = {f"{LABEL}.built": "1"}


def mapped_dockerfile(text: str, image_map: Mapping[str, str]) -> str:
    """The Dockerfile with the images of its ``FROM`` lines replaced as the map says; names of its own stages stay."""
    stages: set[str] = set()

    def replaced(line: re.Match[str]) -> str:
        image = line["image"]
        named = _STAGE.match(line["after"])
        new = image if image.lower() in stages else image_map.get(image, image)
        if named:
            stages.add(named[1].lower())
        return f"{line['before']}{new}{line['after']}"

    return _FROM.sub(replaced, text)


def base_images(folder: Path, image_map: Mapping[str, str]) -> tuple[str, ...]:
    """The images that a folder's Dockerfile starts from, its own stages aside; none where it cannot be read."""
    try:
        text = mapped_dockerfile((folder / "Dockerfile").read_text(encoding="utf-8"), image_map)
    except (OSError, UnicodeDecodeError):
        return ()
    stages: set[str] = {"scratch"}
    found: dict[str, None] = {}
    for line in _FROM.finditer(text):
        if line["image"].lower() not in stages and "$" not in line["image"]:
            found[line["image"]] = None
        if named := _STAGE.match(line["after"]):
            stages.add(named[1].lower())
    return tuple(found)


def build_context(folder: Path, image_map: Mapping[str, str]) -> bytes:
    """What the engine is sent: the same for the same files.

    Raises:
        InvalidData: there is no Dockerfile that can be read.
    """
    file = folder / "Dockerfile"
    try:
        dockerfile = mapped_dockerfile(file.read_text(encoding="utf-8"), image_map).encode()
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidData(f"the Dockerfile cannot be read: {error}", where=file) from error
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for path in sorted(folder.rglob("*")):
            name = os.fspath(path.relative_to(folder))
            if path.is_socket():
                continue
            member = tar.gettarinfo(path, name)
            # Neither when nor by whom a file was made here has a say in what the image is.
            member.mtime = member.uid = member.gid = 0
            member.uname = member.gname = ""
            if path == file:
                member.size = len(dockerfile)
                tar.addfile(member, io.BytesIO(dockerfile))
            elif member.isreg():
                with path.open("rb") as content:
                    tar.addfile(member, content)
            else:
                tar.addfile(member)
    return archive.getvalue()


def build_tag(context: bytes, bases: Iterable[str]) -> str:
    """The tag of what is built: same files, on top of the same images by their ids, same tag."""
    made_from = hashlib.sha256(context)
    made_from.update("\n".join(bases).encode())
    return f"proctor-build:{made_from.hexdigest()[:32]}"


async def build(
    docker: Docker, context: bytes, tag: str, *, where: Path, on_step: Callable[[str], None] = lambda _: None
) -> None:
    """Let the engine build the image. `on_step` receives each step of the Dockerfile, and what it prints.

    Raises:
        InfrastructureError: a step of the Dockerfile failed; the end of what it printed is in the details.
    """
    output: list[str] = []
    with engine_errors(f"build the image of {where}"):
        try:
            steps = docker.images.build(
                fileobj=io.BytesIO(context),
                encoding="identity",
                tag=tag,
                labels=BUILT_LABELS,
                forcerm=True,  # also the container of a step that fails
                stream=True,
            )
            async for step in steps:
                lines = [line for line in str(step.get("stream", "")).splitlines() if line.strip()]
                output += lines
                for line in lines:
                    on_step(line)
        except DockerError as error:
            raise InfrastructureError(
                f"the image cannot be built: {' '.join(str(error.message).split())}",
                where=where / "Dockerfile",
                fix="see what it needs; the images that it starts from can be replaced with --image-map",
                details=output[-_DETAIL_LINES:],
            ) from error
