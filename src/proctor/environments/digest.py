"""What a local environment's programs are, in one short name: same digest, same programs."""

import functools
import hashlib
import os
import platform
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from proctor.core.environment import Mount

_OS_RELEASE_FILES: Final = ("/etc/os-release", "/usr/lib/os-release")
# What each family of systems records about what is installed.
_PACKAGE_DATABASES: Final = (
    "/var/lib/dpkg/status",
    "/usr/lib/sysimage/rpm/rpmdb.sqlite",
    "/var/lib/rpm/rpmdb.sqlite",
    "/lib/apk/db/installed",
)
_OUTSIDE_PACKAGES: Final = ("/usr/local/bin", "/usr/local/lib", "/opt")


def local_digest(kind: str, mounts: Iterable[Mount]) -> str:
    """The digest of an environment that shows this system and these mounts."""
    digest = hashlib.sha256(_system())
    for mount in mounts:
        digest.update(_line(mount.target, mount.source, *_stamp(Path(mount.source))))
    return f"{kind}:{digest.hexdigest()[:32]}"


@functools.cache
def _system() -> bytes:
    digest = hashlib.sha256()
    for fact in _facts():
        digest.update(fact)
    return digest.digest()


def _facts() -> Iterator[bytes]:
    yield _line(platform.machine(), platform.python_version())
    yield _first_readable(_OS_RELEASE_FILES) or b""
    packages = _first_readable(_PACKAGE_DATABASES)
    yield packages if packages is not None else _line(*sorted(path.name for path in Path("/usr/bin").iterdir()))
    for place in map(Path, _OUTSIDE_PACKAGES):
        if place.is_dir():
            for path in sorted(place.iterdir()):
                yield _line(str(path), path.stat().st_size if path.is_file() else "")


def _first_readable(files: Iterable[str]) -> bytes | None:
    """What the first of these files that can be read holds."""
    for file in files:
        if os.access(file, os.R_OK):
            return Path(file).read_bytes()
    return None


def _stamp(path: Path) -> tuple[int, int]:
    info = path.stat()
    return info.st_size if path.is_file() else 0, info.st_mtime_ns


def _line(*values: object) -> bytes:
    return "\0".join(map(str, (*values, ""))).encode(errors="surrogateescape")
