"""Local environments that pass for ones made from an image: which one a node has, TOY_IMAGE says."""

import os

from proctor.core.environment import EnvironmentSpec
from proctor.environments.local import LocalProvider


class ImagedProvider(LocalProvider):
    """Makes them."""

    name = "imaged"
    uses_images = True

    def __init__(self, **_: object) -> None:
        super().__init__()

    async def digest(self, spec: EnvironmentSpec) -> str:
        """What TOY_IMAGE says."""
        return f"imaged:{os.environ.get('TOY_IMAGE', 'one')}"
