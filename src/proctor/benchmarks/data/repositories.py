"""Where the repositories of tasks are cloned from."""

import os
from pathlib import Path
from typing import Final

REPOSITORIES_VARIABLE: Final = "PROCTOR_REPOSITORIES"
_GITHUB: Final = "https://github.com/"


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
