"""Proves what would be released: wheel and sdist, installed into empty environments, run `core-mini`.

``make release-check`` runs it, with the oldest and the newest Python that this machine has of those that are supported.
"""

import os
import re
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]


def interpreters() -> dict[tuple[int, int], Path]:
    """Every Python from 3.11 on, by version: on PATH, or of pyenv."""
    folders = [Path(folder) for folder in os.get_exec_path()]
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    folders += [folder / "bin" for folder in pyenv.glob("3.*")]
    found = {sys.version_info[:2]: Path(sys.executable)}
    for folder in folders:
        for program in folder.glob("python3.*"):
            named = re.fullmatch(r"python3\.(\d+)", program.name)
            if named and int(named[1]) >= 11 and _works(program):
                found.setdefault((3, int(named[1])), program)
    return dict(sorted(found.items()))


def _works(program: Path) -> bool:
    done = subprocess.run([program, "-c", "import venv, ensurepip"], capture_output=True, check=False)
    return done.returncode == 0


def check(python: Path, package: Path, folder: Path) -> None:
    """Install one package with one Python, and use it."""
    subprocess.run([python, "-m", "venv", folder / "venv"], check=True)
    own = folder / "venv/bin"
    subprocess.run([own / "pip", "install", "--quiet", "--disable-pip-version-check", package], check=True)
    env = {"PATH": f"{own}:{os.environ['PATH']}", "HOME": str(folder)}

    def proctor(*words: str) -> str:
        done = subprocess.run(
            [own / "proctor", *words], cwd=folder, env=env, capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise SystemExit(f"proctor {' '.join(words)} exited with {done.returncode}: {done.stderr}")
        return done.stdout

    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert proctor("--version") == f"proctor {version}\n"
    proctor("bench", "run", "core-mini", "--agent", "oracle", "--quiet")
    assert "4/4" in proctor("runs"), "the oracle does not solve core-mini"
    proctor("init", "mine")
    started = subprocess.run(["mine/run.sh"], cwd=folder, env=env, capture_output=True, text=True, check=False)
    assert started.returncode == 0, started.stderr
    assert "1 of 1 tasks are healthy" in started.stdout
    # Templates ship with the package; what is made from them needs nothing else of ours.
    subprocess.run([own / "pip", "install", "--quiet", "--disable-pip-version-check", "pytest"], check=True)
    for kind in ("agent", "benchmark", "environment"):
        proctor("plugin", "new", kind, f"my_{kind}")
        subprocess.run([own / "python", "-m", "pytest", "-q"], cwd=folder / f"my_{kind}", env=env, check=True)


def main() -> None:
    """Build, then check the wheel with the oldest Python and the sdist with the newest."""
    known = interpreters()
    oldest, newest = next(iter(known)), next(reversed(known))
    with tempfile.TemporaryDirectory(prefix="release-check-") as scratch:
        dist = Path(scratch) / "dist"
        subprocess.run([sys.executable, "-m", "build", "--outdir", dist, ROOT], check=True, stdout=subprocess.DEVNULL)
        (wheel,), (sdist,) = dist.glob("*.whl"), dist.glob("*.tar.gz")
        for version, package in ((oldest, wheel), (newest, sdist)):
            folder = Path(scratch) / f"{version[0]}.{version[1]}-{package.suffix[1:]}"
            folder.mkdir()
            check(known[version], package, folder)
            print(
                f"Python {version[0]}.{version[1]}: {package.name} installs into an empty environment, runs core-mini, "
                "and its templates pass their own tests"
            )


if __name__ == "__main__":
    main()
