"""Which files of a machine changed after the time was up, and which of them can hold work."""

from typing import Final

from proctor.core.environment import Environment
from proctor.grading.state.grader_settings import is_named_in

# Places of the system, and files that services go on writing.
_PRUNED: Final = "/proc /sys /dev /run /logs /tests".split()  # noqa: SIM905 - paths read best as words
_SYSTEM_PLACES: Final = ("/tmp", "/var", "/usr", "/etc", "/root", "/opt")  # noqa: S108 - in an environment
_LIVE_PLACES: Final = ("/tmp/", "/var/www/")  # noqa: S108 - likewise
_SERVICE_ENDINGS: Final = (".log", ".pid", ".lock", "-wal", "-journal", "-shm", ".aof", ".rdb", ".pyc")
_SERVICE_NAMES: Final = frozenset({"nohup.out"})
_MAX_LIST_BYTES: Final = 100_000_000
_MAX_LATE: Final = 50


async def changed_since(environment: Environment, when: float, *, path: str) -> tuple[str, ...]:
    """Files that hold data and were changed since then; not logs and databases, which services go on writing."""
    return tuple(file for file in await _find(environment, when, path, _SYSTEM_PLACES) if not _is_of_service(file))


async def data_files(environment: Environment, *, path: str) -> frozenset[str]:
    """Every file that holds data."""
    return frozenset(file for file in await _find(environment, None, path, _SYSTEM_PLACES) if not _is_of_service(file))


async def files_changed_after_deadline(
    environment: Environment, when: float, *, path: str, named: str
) -> tuple[str, ...]:
    """Files changed since then that can be work on the task: data, and whatever the text `named` gives the name of."""
    changed = await _find(environment, when, path, ())
    return tuple(file for file in changed if _can_be_work(file, named))[:_MAX_LATE]


def _can_be_work(file: str, named: str) -> bool:
    if is_named_in(named, file, any_word=True):
        return True
    return not _is_of_service(file) and (
        file.startswith(_LIVE_PLACES) or not file.startswith(tuple(f"{place}/" for place in _SYSTEM_PLACES))
    )


def _is_of_service(file: str) -> bool:
    return file.endswith(_SERVICE_ENDINGS) or file.rpartition("/")[2] in _SERVICE_NAMES


async def _find(environment: Environment, when: float | None, path: str, pruned: tuple[str, ...]) -> list[str]:
    places = [word for place in (*_PRUNED, *pruned) for word in ("-o", "-path", place)][1:]
    since = [] if when is None else ["-newerct", f"@{when:.3f}"]
    asked = await environment.exec(
        [
            *("/bin/sh", "-c", 'exec find "$@" 2>/dev/null', "sh"),
            # Volumes are other file systems, and hold work too.
            *("/", "(", *places, ")", "-prune", "-o"),
            *("(", "-type", "f", "-o", "-type", "l", ")", *since, "-print"),
        ],
        variables={"PATH": path},
        cwd="/",
        timeout=120,
        output_bytes=_MAX_LIST_BYTES,
    )
    return asked.stdout.decode("utf-8", "replace").splitlines()
