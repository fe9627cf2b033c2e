"""Programs of installed packages, compared with an archive: one in the image's own files, which apt reads."""

from collections.abc import AsyncIterator, Iterator

import pytest

from docker_image import IMAGE, change_base, own_base
from environment_factory import sh
from proctor.core.environment import EnvironmentSpec
from proctor.environments.docker import DockerProvider
from proctor.environments.docker_environment import DockerEnvironment
from proctor.grading.state.archive import ArchiveOrigin, compare_with_archive
from proctor.grading.state.programs import find_programs

_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_PACK = r"""
pack() {
  rm -rf p; mkdir -p p/DEBIAN p/usr/bin && printf '#!/bin/sh\necho %s\n' "$3" >p/usr/bin/$1 && chmod 755 p/usr/bin/$1
  printf 'Package: %s\nVersion: %s\nArchitecture: all\nMaintainer: a\nDescription: b\n' "$1" "$2" >p/DEBIAN/control
  (cd p && md5sum usr/bin/$1 >DEBIAN/md5sums) && dpkg-deb -b p "$1.deb" >/dev/null
}
"""
_ARCHIVE = (
    _PACK
    + r"""
mkdir -p /srv/repo && cd /srv/repo && pack greeter 1.0 hello
{ cat p/DEBIAN/control; echo "Filename: ./greeter.deb"; echo "Size: $(stat -c %s greeter.deb)"
  echo "SHA256: $(sha256sum <greeter.deb | cut -d' ' -f1)"; } >Packages
echo 'deb [trusted=yes] file:/srv/repo ./' >/etc/apt/sources.list
"""
)


@pytest.fixture(scope="module")
def image() -> Iterator[str]:
    with own_base(IMAGE) as base:
        lines = _ARCHIVE.replace("\\", "\\\\").replace("'", "'\\''").replace("\n", "\\n")
        change_base(base, f"FROM {base}\nRUN printf '%b' '{lines}' >/make.sh && sh /make.sh\n")
        yield base


@pytest.fixture
async def environment(image: str) -> AsyncIterator[DockerEnvironment]:
    provider = DockerProvider(image=image)
    async with await provider.start(EnvironmentSpec()) as made:
        yield made
    await provider.close()


async def origin(environment: DockerEnvironment, name: str) -> ArchiveOrigin:
    found = await find_programs(environment, [name], search_path=_PATH, path=_PATH)
    checkpoint = await environment.checkpoint()
    try:
        origins = await compare_with_archive(environment, checkpoint, list(found.values()), path=_PATH)
    finally:
        await checkpoint.remove()
    return origins[found[name].real_path]


async def test_a_program_is_compared_with_its_package_in_the_archive(environment: DockerEnvironment) -> None:
    done = await sh(environment, "apt-get -qq update && apt-get -qq install greeter && greeter")
    assert done.stdout.endswith(b"hello\n"), done
    assert await origin(environment, "greeter") == "verified"
    await sh(
        environment,
        "printf '#!/bin/sh\\necho bye\\n' >/usr/bin/greeter; cd / "
        "&& md5sum usr/bin/greeter >/var/lib/dpkg/info/greeter.md5sums",
    )
    assert await origin(environment, "greeter") == "differs"


async def test_a_package_of_one_s_own_is_not_in_the_archive(environment: DockerEnvironment) -> None:
    await sh(environment, f"{_PACK}\ncd /tmp && pack mine 1.0 x && pack greeter 2.0 x && dpkg -i mine.deb greeter.deb")
    assert [await origin(environment, name) for name in ("mine", "greeter")] == ["absent", "absent"]


async def test_where_there_is_no_archive_nothing_is_known() -> None:
    with own_base(IMAGE) as base:
        provider = DockerProvider(image=base)
        async with await provider.start(EnvironmentSpec()) as environment:
            await sh(environment, f"{_PACK}\ncd /tmp && pack mine 1.0 x && dpkg -i mine.deb")
            assert await origin(environment, "mine") == "unreachable"
        await provider.close()
