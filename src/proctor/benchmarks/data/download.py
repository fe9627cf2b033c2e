"""The official places of data sets and of tasks' repositories: the Hugging Face hub, and git."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from proctor.core.errors import InfrastructureError

REPOSITORIES_VARIABLE: Final = "PROCTOR_REPOSITORIES"
_GITHUB: Final = "https://github.com/"


def download_from_hub(repo: str, files: Sequence[str], into: Path) -> str:
    """Download files of a data set (names or patterns) below `into`; the revision that they are of.

    Raises:
        InfrastructureError: the hub cannot be reached, or huggingface_hub is not installed.
    """
    try:
        from huggingface_hub import HfApi, snapshot_download
    except ImportError:
        raise InfrastructureError(
            f"fetching {repo} needs huggingface_hub", fix="install it: `pip install 'proctor[datasets]'`"
        ) from None
    try:
        found = HfApi().dataset_info(repo).sha or ""
        with tempfile.TemporaryDirectory(dir=into.parent) as folder:
            snapshot_download(repo, repo_type="dataset", revision=found, allow_patterns=list(files), local_dir=folder)
            shutil.rmtree(Path(folder) / ".cache", ignore_errors=True)  # the hub's own notes
            shutil.copytree(folder, into, dirs_exist_ok=True)
    except Exception as error:  # whatever the HTTP library of the hub's client raises: it has had several
        raise download_error(f"huggingface.co/datasets/{repo}", error) from error
    return found


def download_from_git(url: str, into: Path, *, revision: str | None = None) -> str:
    """Bring the tree of a git repository below `into`, without its history; the commit that it is of.

    Raises:
        InfrastructureError: there is no such repository or revision, or it cannot be reached.
    """
    # No prompt, no login of the user's, no hook or filter of theirs.
    quiet = {
        "PATH": os.environ.get("PATH", os.defpath),
        "HOME": str(into),
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": "/dev/null",
        **{name: value for name, value in os.environ.items() if name.lower().endswith("_proxy")},
    }
    into.mkdir(parents=True, exist_ok=True)

    def git(*words: str) -> str:
        try:
            done = subprocess.run(
                ["git", "-C", str(into), *words],
                capture_output=True,
                text=True,
                errors="replace",
                env=quiet,
                stdin=subprocess.DEVNULL,
                check=False,
            )
        except OSError as error:
            raise download_error(url, f"git does not start: {error.strerror}") from error
        if done.returncode:
            # Advice comes after an empty line.
            raise download_error(url, done.stderr.strip().partition("\n\n")[0] or f"git ended with {done.returncode}")
        return done.stdout.strip()

    git("init", "--quiet")
    git("fetch", "--quiet", "--depth=1", "--end-of-options", url, revision or "HEAD")
    git("-c", "advice.detachedHead=false", "checkout", "--quiet", "FETCH_HEAD")
    commit = git("rev-parse", "HEAD")
    shutil.rmtree(into / ".git")
    return commit


def download_error(origin: str, why: object) -> InfrastructureError:
    """That a data set cannot be fetched from its official place, and what to do."""
    said = " ".join(str(why).split()) or type(why).__name__
    return InfrastructureError(
        f"cannot be fetched: {said}",
        where=origin,
        fix="check the network, or bring a copy here and give it with --from PATH",
    )


def repository_url(name: str) -> str:
    """Where a repository is cloned from, which is given as ``owner/name`` of GitHub's, or by its address.

    One of GitHub's is had from a clone in the folder that $PROCTOR_REPOSITORIES names, where there is one.
    """
    url = name if "://" in name else f"{_GITHUB}{name}"
    folder = os.environ.get(REPOSITORIES_VARIABLE)
    if folder and url.startswith(_GITHUB):
        short = url.removeprefix(_GITHUB).removesuffix("/").removesuffix(".git")
        for form in (short, f"{short}.git", short.replace("/", "__"), short.replace("/", "+")):
            for place in (Path(folder, form), Path(folder, form, "repo")):
                if (place / "HEAD").is_file() or (place / ".git").exists():
                    return str(place.absolute())
    return url
