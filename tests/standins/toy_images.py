"""Local environments that pass for ones made from an image: which one a node has, TOY_IMAGE says."""

import os
import sys

from proctor.core.environment import EnvironmentSpec
from proctor.core.errors import InfrastructureError
from proctor.environments.local import LocalProvider


class ImagedProvider(LocalProvider):
    """Makes them."""

    name = "imaged"
    uses_images = True

    def __init__(self, **_: object) -> None:
        super().__init__()

    async def digest(self, spec: EnvironmentSpec) -> str:
        """What TOY_IMAGE says; the command itself has no images where TOY_NO_IMAGES is set for it."""
        if "TOY_NO_IMAGES" in os.environ and sys.argv[0].endswith("proctor"):
            raise InfrastructureError("an image was to be pulled on the driver's machine")
        return f"imaged:{os.environ.get('TOY_IMAGE', 'one')}"
