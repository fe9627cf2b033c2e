"""Images that are made here: from a folder with a Dockerfile, under a tag that names all that they are made from."""

import hashlib
import io
import os
import posixpath
import re
import tarfile
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from aiodocker import Docker, DockerError

from proctor.core.errors import InfrastructureError, InvalidData
from proctor.environments.docker_engine import LABEL, engine_errors
from proctor.environments.image_build import ImageBuild

_FROM: Final = re.compile(
    r"^(?P<before>[ \t]*FROM[ \t]+(?:--platform=\S+[ \t]+)?)(?P<image>\S+)(?P<after>.*)$", re.IGNORECASE | re.MULTILINE
)
_STAGE: Final = re.compile(r"[ \t]+AS[ \t]+(\S+)", re.IGNORECASE)
_DETAIL_LINES: Final = 5
_INLINE_NAME: Final = ".proctor.Dockerfile"
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


def base_images(made: ImageBuild, image_map: Mapping[str, str]) -> tuple[str, ...]:
    """The images that a Dockerfile starts from, its own stages aside; none where it cannot be read."""
    try:
        text = _dockerfile(made, image_map)
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


def _dockerfile(made: ImageBuild, image_map: Mapping[str, str]) -> str:
    """The Dockerfile, with images replaced, up to the end of the stage that is wanted."""
    text = (made.folder / made.dockerfile).read_text(encoding="utf-8") if made.text is None else made.text
    text = mapped_dockerfile(text, image_map)
    if not made.target:
        return text
    lines = list(_FROM.finditer(text))
    for number, line in enumerate(lines):
        named = _STAGE.match(line["after"])
        if made.target == str(number) or (named and named[1].lower() == made.target.lower()):
            return text[: lines[number + 1].start()] if number + 1 < len(lines) else text
    raise InvalidData(f"the Dockerfile has no stage {made.target}", where=made.folder / made.dockerfile)


def dockerfile_name(made: ImageBuild) -> str:
    """Its name in what the engine is sent."""
    return made.dockerfile if made.text is None else _INLINE_NAME


def build_context(made: ImageBuild, image_map: Mapping[str, str]) -> bytes:
    """What the engine is sent: the same for the same files.

    Raises:
        InvalidData: there is no Dockerfile that can be read.
    """
    folder, name = made.folder, dockerfile_name(made)
    try:
        dockerfile = _dockerfile(made, image_map).encode()
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidData(f"the Dockerfile cannot be read: {error}", where=folder / made.dockerfile) from error
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for path in sorted(folder.rglob("*")):
            member_name = os.fspath(path.relative_to(folder))
            if path.is_socket() or member_name == posixpath.normpath(name):
                continue
            member = tar.gettarinfo(path, member_name)
            # Neither when nor by whom a file was made here has a say in what the image is.
            member.mtime = member.uid = member.gid = 0
            member.uname = member.gname = ""
            if member.isreg():
                with path.open("rb") as content:
                    tar.addfile(member, content)
            else:
                tar.addfile(member)
        member = tarfile.TarInfo(posixpath.normpath(name))
        member.size = len(dockerfile)
        tar.addfile(member, io.BytesIO(dockerfile))
    return archive.getvalue()


def build_tag(context: bytes, bases: Iterable[str], made: ImageBuild | None = None) -> str:
    """The tag of what is built: same files and arguments, on top of the same images by their ids, same tag."""
    made_from = hashlib.sha256(context)
    made_from.update("\n".join(bases).encode())
    if made is not None and (made.args or dockerfile_name(made) != "Dockerfile"):
        made_from.update(repr((dockerfile_name(made), sorted(made.args.items()))).encode())
    return f"proctor-build:{made_from.hexdigest()[:32]}"


async def build(
    docker: Docker, made: ImageBuild, context: bytes, tag: str, *, on_step: Callable[[str], None] = lambda _: None
) -> None:
    """Let the engine build the image. `on_step` receives each step of the Dockerfile, and what it prints.

    Raises:
        InfrastructureError: a step of the Dockerfile failed; the end of what it printed is in the details.
    """
    output: list[str] = []
    with engine_errors(f"build the image of {made.folder}"):
        try:
            steps = docker.images.build(
                fileobj=io.BytesIO(context),
                encoding="identity",
                tag=tag,
                path_dockerfile=posixpath.normpath(dockerfile_name(made)),
                buildargs=made.args or None,
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
                where=made.folder / made.dockerfile,
                fix="see what it needs; the images that it starts from can be replaced with --image-map",
                details=output[-_DETAIL_LINES:],
            ) from error
