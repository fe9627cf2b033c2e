"""How an image is built."""

from pathlib import Path

from msgspec import field

from proctor.core.record import Record


class ImageBuild(Record):
    """An image that is made from a folder.

    Attributes:
        folder: what is sent to the engine.
        dockerfile: below it.
        text: a Dockerfile that is in no file.
        target: the stage that it ends with; empty: the last one.
        args: of the Dockerfile's ``ARG`` lines.
    """

    folder: Path
    dockerfile: str = "Dockerfile"
    text: str | None = None
    target: str = ""
    args: dict[str, str] = field(default_factory=dict)
