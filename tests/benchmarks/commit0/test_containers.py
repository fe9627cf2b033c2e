"""The same library in containers, from an image in the shape of the published ones."""

import json
import secrets
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.commit0.world import NAME, TASK, make_origin
from cli_world import CliWorld
from docker_image import own_base
from proctor.core.causes import Cause
from shared_fixture import made_once

TAG = f"proctor-test/abacus:{secrets.token_hex(4)}"
PACKAGES = ("pytest", "pytest-cov", "coverage", "pytest-json-report")
# As the official builder leaves it: a repository with the oracle, a virtual environment, and a generated file.
DOCKERFILE = """
COPY repository /testbed
RUN cd /testbed && python3 -m venv --without-pip .venv && echo /testbed/src >.venv/lib/python3.11/site-packages/a.pth \\
 && echo generated >src/abacus/data.txt
COPY packages /testbed/.venv/lib/python3.11/site-packages
RUN printf '#!/bin/sh\\nexec /testbed/.venv/bin/python -m pytest "$@"\\n' >/testbed/.venv/bin/pytest \\
 && chmod +x /testbed/.venv/bin/pytest
"""


def _install(folder: Path) -> None:
    """What the library's tests need, for the image's Python."""
    for_debian = ("--python-version", "3.11", "--only-binary", ":all:", "--target", str(folder))
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--quiet")
    subprocess.run([*pip, *for_debian, *PACKAGES], check=True)


@pytest.fixture(scope="module")
def origin(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder to fetch from, and the library's image on the engine."""
    folder = tmp_path_factory.mktemp("containers")
    made = make_origin(folder / "origin")
    context = folder / "context"
    shutil.copytree(made / "repos" / NAME, context / "repository")
    shutil.copytree(made_once(tmp_path_factory, "commit0-packages", _install), context / "packages")
    with own_base() as base:
        (context / "Dockerfile").write_text(f"FROM {base}\n{DOCKERFILE}")
        subprocess.run(["docker", "build", "--quiet", "--tag", TAG, str(context)], check=True, capture_output=True)
        yield made


@pytest.mark.slow
@pytest.mark.timeout(300)
async def test_oracle_and_agent_in_containers(origin: Path, tmp_path: Path) -> None:
    """The agent looks for the oracle, in the image's history above all, and says what it found."""
    cli_world = CliWorld(tmp_path)
    images = cli_world.folder / "images.json"
    images.write_text(json.dumps({f"wentingzhao/{NAME}:v0": TAG}))
    fetched = await cli_world.run("bench", "fetch", "commit0", "--split", "all", "--from", origin)
    assert fetched.code == 0, fetched
    environments = ("--split", "all", "--runner", "docker", "--image-map", images, "--controls", 0)
    oracle = await cli_world.run("bench", "eval", "commit0", *environments, "--oracle", "--json")
    assert oracle.code == 0, oracle
    verdict = oracle.json["tasks"][0]["verdict"]
    assert (verdict["task_id"], verdict["status"], verdict["official"]) == (TASK, "resolved", "unresolved")
    assert [verdict["scores"][name] for name in ("official", "strict", "stub", "oracle")] == pytest.approx(
        [4 / 8, 5 / 7, 2 / 7, 5 / 7], abs=1e-6
    )
    assert verdict["scores"]["coverage"] > 0.5
    agent = cli_world.folder / "agent.sh"
    agent.write_text(
        "#!/bin/sh\ncat src/abacus/data.txt; git log --all --format=%s; git fsck --lost-found\n"
        "for place in /bin /etc /home /opt /root /testbed /tmp /usr /var /proctor; do\n"
        "  grep -rl 'for row in rows if name in row' $place 2>/dev/null\ndone\n"
        "pytest -q tests | tail -1\n"
    )
    agent.chmod(0o755)
    run = await cli_world.run("bench", "run", "commit0", *environments, "--agent", "command", "--claude-bin", agent)
    assert run.code == 0, run
    store = cli_world.store("commit0/run-001")
    (result,) = store.results()
    cli_world.close()
    assert result.verdict is not None
    assert (result.verdict.cause, result.verdict.scores["gain"]) == (Cause.EMPTY, 0)
    (log,) = store.folder.rglob("stdout.log")
    lines = log.read_text().splitlines()
    assert lines[:2] == ["generated", "base"]
    assert [line for line in lines if line.startswith("/")] == ["/proctor/agent"]
    assert "3 failed, 1 passed" in lines[-1]
