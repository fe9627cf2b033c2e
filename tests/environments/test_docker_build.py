"""Images made from a Dockerfile, and images in the place of others."""

import io
import secrets
import subprocess
import tarfile
from collections.abc import Mapping
from pathlib import Path

import pytest

from docker_image import IMAGE, change_base, need_docker, own_base
from proctor.core.environment import EnvironmentSpec
from proctor.core.errors import InfrastructureError, InvalidData
from proctor.environments.docker import DockerProvider
from proctor.environments.docker_build import base_images, build_context, build_tag, mapped_dockerfile
from proctor.environments.image_build import ImageBuild

DOCKERFILE = """\
# FROM python:3.13 is what others use
FROM --platform=linux/amd64 python:3.13-slim AS base
RUN echo made > /made.txt
from base
COPY greeting /greeting
FROM python:3.13-slim
"""


def test_the_images_that_a_dockerfile_starts_from_are_replaced_and_its_stages_are_not() -> None:
    mapped = mapped_dockerfile(DOCKERFILE, {"python:3.13-slim": "mine:1", "base": "never", "python:3.13": "never"})
    assert mapped.splitlines() == [
        "# FROM python:3.13 is what others use",
        "FROM --platform=linux/amd64 mine:1 AS base",
        "RUN echo made > /made.txt",
        "from base",
        "COPY greeting /greeting",
        "FROM mine:1",
    ]


def test_the_images_that_a_dockerfile_starts_from_are_known(tmp_path: Path) -> None:
    folder = _folder(tmp_path / "a", DOCKERFILE + "FROM scratch\nFROM $WHAT\nFROM other:1\n")
    assert base_images(ImageBuild(folder=folder), {"python:3.13-slim": "mine:1"}) == ("mine:1", "other:1")
    assert base_images(ImageBuild(folder=tmp_path), {}) == ()


def _folder(path: Path, dockerfile: str, greeting: str = "hello") -> Path:
    path.mkdir()
    (path / "Dockerfile").write_text(dockerfile)
    (path / "greeting").write_text(greeting)
    return path


def test_the_tag_names_the_files_the_map_and_the_bases_and_nothing_else(tmp_path: Path) -> None:
    def tag_of(folder: Path, image_map: Mapping[str, str] | None = None, base: str = "sha256:1") -> str:
        return build_tag(build_context(ImageBuild(folder=folder), image_map or {}), [base])

    one, same = _folder(tmp_path / "a", DOCKERFILE), _folder(tmp_path / "b", DOCKERFILE)
    other = _folder(tmp_path / "c", DOCKERFILE, "hi")
    tag = tag_of(one)
    assert tag_of(same) == tag
    assert tag_of(other) != tag
    assert tag_of(one, {"python:3.13-slim": "mine:1"}) != tag
    assert tag_of(one, base="sha256:2") != tag


def test_another_dockerfile_a_stage_and_arguments_make_other_images(tmp_path: Path) -> None:
    folder = _folder(tmp_path / "a", DOCKERFILE)
    (folder / "other.Dockerfile").write_text("FROM other:1\n")
    builds = [
        ImageBuild(folder=folder),
        ImageBuild(folder=folder, dockerfile="other.Dockerfile"),
        ImageBuild(folder=folder, text="FROM inline:1\n"),
        ImageBuild(folder=folder, target="base"),
        ImageBuild(folder=folder, args={"A": "1"}),
    ]
    assert len({build_tag(build_context(made, {}), [], made) for made in builds}) == len(builds)
    assert [base_images(made, {}) for made in builds[1:4]] == [("other:1",), ("inline:1",), ("python:3.13-slim",)]
    with tarfile.open(fileobj=io.BytesIO(build_context(builds[3], {}))) as context:
        dockerfile = context.extractfile("Dockerfile")
        assert dockerfile is not None
        assert b"COPY" not in dockerfile.read()
    with pytest.raises(InvalidData, match="no stage nowhere"):
        build_context(ImageBuild(folder=folder, target="nowhere"), {})


def test_a_folder_without_a_dockerfile_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidData, match="Dockerfile"):
        build_context(ImageBuild(folder=tmp_path), {})


async def test_an_environment_is_made_from_a_dockerfile_with_its_base_replaced(tmp_path: Path) -> None:
    dockerfile = "FROM python:3.13-slim\nCOPY greeting /greeting\nENV WHERE=inside\n"
    spec = EnvironmentSpec(build=_folder(tmp_path / "context", dockerfile))
    with own_base() as base:
        steps: list[str] = []
        provider = DockerProvider(
            image_map={"python:3.13-slim": base}, on_pull=lambda progress: steps.append(progress.layer)
        )
        try:
            async with await provider.start(spec) as environment:
                assert "Step 2/4 : COPY greeting /greeting" in steps  # who waits for minutes sees where it is
                done = await environment.exec(["sh", "-c", "cat /greeting; echo $WHERE"])
                assert done.stdout == b"helloinside\n"
                assert environment.digest == await provider.digest(spec)
                described = await provider._docker().images.inspect(environment.digest.removeprefix("docker:"))
                assert "proctor.built" in described["Config"]["Labels"]  # as the documentation says they are found
        finally:
            await provider.close()


async def test_when_the_image_behind_a_name_has_changed_what_stands_on_it_is_built_anew(tmp_path: Path) -> None:
    spec = EnvironmentSpec(build=_folder(tmp_path / "context", "FROM python:3.13-slim\nCOPY greeting /greeting\n"))
    with own_base() as base:
        provider = DockerProvider(image_map={"python:3.13-slim": base})
        try:
            before = await provider.digest(spec)
            change_base(base, f"FROM {base}\nRUN echo newer >/version\n")
            async with await provider.start(spec) as environment:
                assert (await environment.exec(["cat", "/version"])).stdout == b"newer\n"
                assert environment.digest != before
                assert environment.digest == await provider.digest(spec)
        finally:
            await provider.close()


async def test_a_build_that_fails_says_which_step_and_leaves_no_container(tmp_path: Path) -> None:
    need_docker()
    why = f"why-{secrets.token_hex(8)}"
    provider = DockerProvider()
    try:
        with pytest.raises(InfrastructureError, match=r"cannot be built.*non-zero code: 7") as caught:
            await provider.start(
                EnvironmentSpec(build=_folder(tmp_path / "a", f"FROM {IMAGE}\nRUN echo {why}; exit 7\n"))
            )
        assert any(why in line for line in caught.value.details)
    finally:
        await provider.close()
    listed = ["docker", "ps", "--all", "--no-trunc", "--format", "{{.Command}}"]
    assert why not in subprocess.run(listed, capture_output=True, text=True, check=True).stdout


async def test_an_image_is_used_in_the_place_of_another(tmp_path: Path) -> None:
    need_docker()
    provider = DockerProvider(image_map={"far.example/away:1": IMAGE})
    plain = DockerProvider()
    try:
        away, here = EnvironmentSpec(image="far.example/away:1"), EnvironmentSpec(image=IMAGE)
        assert await provider.digest(away) == await plain.digest(here)
        async with await provider.start(away) as environment:
            assert (await environment.exec(["true"])).exit_code == 0
    finally:
        await provider.close()
        await plain.close()
