"""The files of the image's own Pythons and of their pytest, which a grader's tests run on.

They are recorded by digest before the agent starts. What it has changed of them is put back from the image; what it has
added to a standard library, where it would hide a module, is removed.
"""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from msgspec import field

from proctor.core.environment import Checkpoint, Environment
from proctor.core.errors import InfrastructureError, LimitReached
from proctor.core.record import Record
from proctor.core.verdict import Finding
from proctor.grading.finding_codes import EnvironmentCode

# Prints the roots of standard libraries, then digests and paths. Its input: the roots to list; none: all.
_LIST_LIBRARIES: Final = r"""
roots=$(cat)
[ -n "$roots" ] || roots=$(find /usr /opt /root -xdev -path '*/lib*/python3*/os.py' ! -path '*-packages/*' 2>/dev/null)
for root in $roots; do
  root=${root%/os.py}
  echo "=root $root/"
  find "$root" -xdev -type f \( -name '*.py' -o -name '*.so' \) ! -path '*-packages/*' ! -path '*/test/*' \
    -exec sha256sum {} + 2>/dev/null
done
find /usr /opt /root -xdev -type f -path '*-packages/*' -name '*.py' \
  \( -path '*-packages/_pytest/*' -o -path '*-packages/pytest/*' -o -path '*-packages/pluggy/*' \) \
  -exec sha256sum {} + 2>/dev/null
:
"""
_MAX_RESTORED: Final = 500
_MAX_BYTES: Final = 20_000_000
_MAX_FINDINGS: Final = 5


class LibraryFiles(Record):
    """Digests by path. `roots`: the standard libraries, each ending with a slash."""

    digests: dict[str, str] = field(default_factory=dict)
    roots: tuple[str, ...] = ()


async def list_libraries(environment: Environment, *, path: str, roots: tuple[str, ...] = ()) -> LibraryFiles:
    """The files of the Pythons in an environment, or of those with these roots.

    Raises:
        InfrastructureError: the environment cannot be inspected.
    """
    asked = await environment.exec(
        ["/bin/sh", "-c", _LIST_LIBRARIES],
        stdin="".join(f"{root}os.py\n" for root in roots).encode() or b"\n",
        variables={"PATH": path},
        cwd="/",
        timeout=300,
        output_bytes=_MAX_BYTES,
    )
    if asked.timed_out or asked.exit_code != 0:
        raise InfrastructureError("the environment's libraries cannot be listed")
    lines = asked.stdout.decode("utf-8", "surrogateescape").splitlines()
    listed = [line.partition("  ") for line in lines if not line.startswith("=root ")]
    return LibraryFiles(
        digests={file: digest for digest, _, file in listed if file.startswith("/")},
        roots=tuple(line.removeprefix("=root ") for line in lines if line.startswith("=root ")),
    )


async def restore_libraries(
    environment: Environment, before: LibraryFiles, checkpoint: Checkpoint | None, *, path: str
) -> list[Finding]:
    """Put changed files back from the image, and remove what hides a module.

    Without a checkpoint, of which the image is known, what was changed is named and stays.
    """
    if not before.digests:
        return []
    now = await list_libraries(environment, path=path, roots=before.roots)
    changed = [file for file, digest in before.digests.items() if now.digests.get(file) != digest][:_MAX_RESTORED]
    added = [file for file in now.digests if file not in before.digests and file.startswith(before.roots)]
    if changed and checkpoint is not None:
        async with await checkpoint.original() as original:
            for file in changed:
                await _copy_back(original, environment, file)
    if added:
        await environment.exec(["rm", "-f", "--", *added[:_MAX_RESTORED]], variables={"PATH": path}, cwd="/")
    code = EnvironmentCode.SETTINGS_CHANGED
    what = "it was set aside" if checkpoint is not None else "it stayed"
    return [
        Finding(code=code.value, path=file, detail=f"{code.meaning}; {what}")
        for file in (*changed, *added)[:_MAX_FINDINGS]
    ]


async def _copy_back(original: Environment, environment: Environment, file: str) -> None:
    with TemporaryDirectory() as scratch:
        target = Path(scratch) / "it"
        try:
            await original.get(file, target, max_bytes=_MAX_BYTES)
        except (FileNotFoundError, LimitReached):
            return
        if target.is_file() and not target.is_symlink():
            await environment.put(target, file, mode=0o644)
