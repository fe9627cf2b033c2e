"""Local environments that pass for ones made from an image: which one a node has, TOY_IMAGE says."""

import os
import sys
from pathlib import Path

from proctor.core.environment import EnvironmentSpec
from proctor.core.errors import InfrastructureError
from proctor.environments.local import LocalProvider
from proctor.environments.local_environment import LocalEnvironment


class ImagedProvider(LocalProvider):
    """Makes them."""

    name = "imaged"
    uses_images = True

    def __init__(self, **_: object) -> None:
        super().__init__()

    async def start(self, spec: EnvironmentSpec) -> LocalEnvironment:
        """An environment; none on a machine whose home has the file "sick"."""
        if (Path.home() / "sick").exists():
            raise InfrastructureError("the machine is sick")
        return await super().start(spec)

    async def digest(self, spec: EnvironmentSpec) -> str:
        """What TOY_IMAGE says; the command itself notes in the file TOY_PULLED that it would have pulled an image."""
        if "TOY_PULLED" in os.environ and sys.argv[0].endswith("proctor"):
            with Path(os.environ["TOY_PULLED"]).open("a") as file:
                file.write("pulled\n")
        return f"imaged:{os.environ.get('TOY_IMAGE', 'one')}"
