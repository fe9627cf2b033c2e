import subprocess
import sys

import pytest

import proctor.environments
from proctor.core.errors import UsageError
from proctor.environments import provider, provider_names


def test_the_public_names_are_these() -> None:
    assert proctor.environments.__all__ == [
        "ReapResult",
        "compose_version",
        "docker_images",
        "docker_unavailable_reason",
        "docker_version",
        "local_unavailable_reason",
        "local_version",
        "provider",
        "provider_names",
        "reap",
    ]


def test_providers_are_found_by_name() -> None:
    assert provider_names() == ["docker", "local"]
    assert provider("local").name == "local"
    assert provider("local", isolation=False).name == "local"
    with pytest.raises(UsageError, match="choose one of: docker, local"):
        provider("cloud")


def test_naming_the_package_imports_nothing_heavy() -> None:
    script = """import sys, proctor.environments; proctor.environments.provider_names()
print(sorted({'aiodocker', 'aiohttp', 'psutil'} & set(sys.modules)))"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
