"""Fixtures that give a project's end-to-end tests a sandbox: made once, and as new for every test.

    def test_an_agent_answers(proctor_sandbox):
        proctor_sandbox.run(["h2", "run", "worker", "--role", "default", "--detach"], check=True)

Override `proctor_preset` or `proctor_auth_from` in a ``conftest.py`` to say what the sandbox is made from.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from proctor.sandboxes import Sandbox, Sandboxes

_NAME = "test"


@pytest.fixture(scope="session")
def proctor_preset() -> str | Path:
    """The preset of the sandbox: a name, or the path of a folder."""
    return "hooks"


@pytest.fixture(scope="session")
def proctor_auth_from() -> Path | None:
    """The Claude Code configuration directory from which the sandbox gets its credentials; none by default."""
    return None


@pytest.fixture(scope="session")
def _proctor_sandboxes(
    proctor_preset: str | Path, proctor_auth_from: Path | None, tmp_path_factory: pytest.TempPathFactory
) -> "Iterator[Sandboxes]":
    from proctor.sandboxes import Sandboxes

    sandboxes = Sandboxes(tmp_path_factory.mktemp("sandboxes"))
    sandboxes.create(_NAME, preset=proctor_preset, auth_from=proctor_auth_from)
    yield sandboxes
    sandboxes.destroy(_NAME)


@pytest.fixture
def proctor_sandbox(_proctor_sandboxes: "Sandboxes") -> "Iterator[Sandbox]":
    """A sandbox as new. After the test all that runs in it is stopped, and all but its credentials made again."""
    yield _proctor_sandboxes.get(_NAME)
    _proctor_sandboxes.reset(_NAME)
