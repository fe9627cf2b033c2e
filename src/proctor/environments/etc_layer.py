"""What an environment's /etc shows in place of the machine's files, as one directory that is laid over it.

Bubblewrap goes through the list of all mounts for each file that it binds: a dozen of them took as long as all the rest
of an environment. Directories are covered as elsewhere.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Final

from proctor.core.environment import Mount, Network
from proctor.environments.environment_dir import EnvironmentDir
from proctor.environments.visibility import masked_paths, system_mounts

ETC: Final = "/etc"
_OWN_FILES: Final = Path(__file__).parent / "etc"
_MOUNTS: Final = Path("/proc/self/mountinfo")


class EtcLayers:
    """The layers of one provider's environments.

    They are in a folder among the environments', so that the clean-up after a crash finds them.
    """

    def __init__(self, environments_dir: Path) -> None:
        self._environments_dir = environments_dir
        self._folder: EnvironmentDir | None = None
        self._made: dict[tuple[tuple[Path, ...], Network], Path] = {}
        self._usable = True

    def get(self, hidden: tuple[Path, ...], network: Network) -> Path | None:
        """What is laid over /etc where these paths are hidden; None where that is not possible."""
        if self._usable and (hidden, network) not in self._made:
            try:
                self._make(hidden, network)
            except OSError:
                self.give_up()  # files are bound one by one, as long as there is a disk at all
        return self._made.get((hidden, network)) if self._usable else None

    def _make(self, hidden: tuple[Path, ...], network: Network) -> None:
        if self._folder is None:
            if not _can_be_laid_over():
                self.give_up()
                return
            self._folder = EnvironmentDir.make(self._environments_dir)
        layer = self._folder.path / f"etc-{len(self._made)}"
        layer.mkdir()
        layer.chmod(0o755)
        _fill(layer, hidden, network)
        self._made[hidden, network] = layer

    def give_up(self) -> None:
        """Nothing can be laid over /etc here."""
        self._usable = False

    def close(self) -> None:
        """Remove them; no environment shows them any more."""
        self._made.clear()
        if self._folder is not None:
            self._folder.remove()
        self._folder = None


def own_etc_files(network: Network) -> list[tuple[Path, Path]]:
    """The files of ours that environments have in place of the machine's: where they are, and what they are inside."""
    files = ((file, Path(ETC, file.name)) for file in sorted(_OWN_FILES.iterdir()))
    return [
        (file, own)
        for file, own in files
        if own.is_file() and not own.is_symlink() and (own.name != "hosts" or network is not Network.OPEN)
    ]


def _can_be_laid_over() -> bool:
    """Whether /etc is a directory with nothing mounted in it, as a container's hosts file is: no overlay shows that."""
    if not any(mount.target == ETC for mount in system_mounts()[0]):
        return False
    return not any(
        line.split(" ")[4].startswith(f"{ETC}/") for line in _MOUNTS.read_text(errors="replace").splitlines()
    )


def _fill(layer: Path, hidden: Iterable[Path], network: Network) -> None:
    for source, own in own_etc_files(network):
        (layer / own.name).write_bytes(source.read_bytes())
        (layer / own.name).chmod(0o644)
    for path, is_directory in masked_paths(Mount(source=ETC, target=ETC), hidden):
        if not is_directory:
            covered = layer / Path(path).relative_to(ETC)
            for parent in reversed(covered.relative_to(layer).parents[:-1]):
                _make_like(layer / parent, Path(ETC, parent))
            covered.write_bytes(b"")
            covered.chmod(0)


def _make_like(directory: Path, original: Path) -> None:
    if not directory.is_dir():
        directory.mkdir()
        directory.chmod(original.stat().st_mode & 0o755)
