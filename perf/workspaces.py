"""How long workspaces take, next to bare git doing the same in the same run.

    python perf/workspaces.py [--commits 2000] [--files 3000] [--rounds 5]

Times on a shared machine are noise; the ratios in one run are not. Every comparison starts from the same repository
and ends in the same files.
"""

import argparse
import os
import random
import shutil
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from proctor.core.submission import PatchKind
from proctor.core.task import DirectorySource, RepositorySource
from proctor.workspaces import apply_patch, base_of, check_out, make_submission, prove_no_leak

if TYPE_CHECKING:
    from proctor.workspaces import BaseTree

ENVIRONMENT = {
    "PATH": os.environ["PATH"],
    "HOME": "/nonexistent",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_AUTHOR_NAME": "a",
    "GIT_AUTHOR_EMAIL": "a@localhost",
    "GIT_COMMITTER_NAME": "a",
    "GIT_COMMITTER_EMAIL": "a@localhost",
}


def git(directory: Path, *arguments: str, stdin: bytes = b"") -> bytes:
    return subprocess.run(
        ["git", *arguments], cwd=directory, env=ENVIRONMENT, input=stdin, check=True, capture_output=True
    ).stdout


def make_upstream(path: Path, commits: int, files: int) -> list[str]:
    """A history in which every commit edits a few of many files."""
    chance = random.Random(7)
    names = [f"src/pkg{number % 40}/mod{number % 7}/file{number}.py" for number in range(files)]
    texts = {name: [f"line {chance.random()}" for _ in range(60)] for name in names}
    stream = []

    def put(name: str) -> None:
        data = "\n".join(texts[name]) + "\n"
        stream.append(f"M 100644 inline {name}\ndata {len(data)}\n{data}\n")

    for number in range(commits):
        stream.append(f"commit refs/heads/main\ncommitter a <a@localhost> {1_500_000_000 + number} +0000\ndata 1\nx\n")
        for name in names if number == 0 else chance.sample(names, 4):
            texts[name][chance.randrange(60)] = f"line {chance.random()}"
            put(name)
    path.mkdir()
    git(path, "init", "--quiet", "--bare", "--initial-branch=main")
    git(path, "fast-import", "--quiet", stdin="".join(stream).encode())
    git(path, "repack", "-adfq")
    return git(path, "rev-list", "--reverse", "main").decode().split()


class Bench:
    """Runs things in turns and prints medians beside each other."""

    def __init__(self, rounds: int) -> None:
        self.rounds = rounds

    def compare(
        self,
        title: str,
        bare: Callable[[int], object],
        ours: Callable[[int], object],
        *,
        clean: Callable[[], None] = lambda: None,
    ) -> None:
        times: tuple[list[float], list[float]] = ([], [])
        for number in range(self.rounds):
            for taken, run in zip(times, (bare, ours), strict=True):
                started = time.perf_counter()
                run(number)
                taken.append(1000 * (time.perf_counter() - started))
            clean()
        bare_ms, ours_ms = map(statistics.median, times)
        print(f"{title:<58} bare git {bare_ms:8.1f} ms   ours {ours_ms:8.1f} ms   ratio {ours_ms / bare_ms:5.2f}")

    def once(self, title: str, run: Callable[[], object]) -> None:
        started = time.perf_counter()
        run()
        print(f"{title:<58} {'':>17}   ours {1000 * (time.perf_counter() - started):8.1f} ms")


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--commits", type=int, default=2000)
    options.add_argument("--files", type=int, default=3000)
    options.add_argument("--rounds", type=int, default=5)
    chosen = options.parse_args()
    with tempfile.TemporaryDirectory(prefix="proctor-perf-") as directory:
        run(Path(directory), chosen.commits, chosen.files, Bench(chosen.rounds))


def run(environment: Path, commits: int, files: int, bench: Bench) -> None:
    upstream = environment / "upstream"
    history = make_upstream(upstream, commits, files)
    middle = history[len(history) // 2]
    print(f"{commits} commits, {files} files; the base is commit {len(history) // 2}")

    def clone(number: int) -> None:
        git(environment, "clone", "--quiet", "--no-hardlinks", "--no-checkout", str(upstream), f"clone-{number}")
        git(environment / f"clone-{number}", "checkout", "--quiet", middle)

    def prepared(commit: str, cache: str = "cache") -> "BaseTree":
        return base_of(RepositorySource(url=str(upstream), commit=commit), cache=environment / cache)

    bench.compare(
        "clone + checkout | mirror + base + checkout (cold)",
        clone,
        lambda number: check_out(prepared(middle, f"cache-{number}"), environment / f"cold-{number}"),
        clean=lambda: remove(environment, "clone-*", "cold-*", "cache-*"),
    )
    base = prepared(middle)
    bench.compare(
        "clone + checkout | checkout of a prepared base (warm)",
        clone,
        lambda number: check_out(prepared(middle), environment / f"warm-{number}"),
        clean=lambda: remove(environment, "clone-*", "warm-*"),
    )
    steps = [history[len(history) // 2 + 20 * number] for number in range(1, 6)]
    bench.once("five later bases of the same repository", lambda: [prepared(commit) for commit in steps])

    plain, tree, target = environment / "plain", environment / "tree", environment / "target"
    for place in (plain, tree, target):
        check_out(base, place)
    names = sorted(place.relative_to(plain) for place in plain.rglob("*.py"))[:: max(1, files // 12)]
    for place in (plain, tree):
        for name in names:
            (place / name).write_text((place / name).read_text().replace("line 0.5", "changed 0.5") + "new\n")
        (place / "added.py").write_text("x = 1\n" * 50)

    def bare_diff(_: int) -> bytes:  # a tree brought out of a sandbox has no stat cache that holds
        (plain / ".git/index").unlink()
        git(plain, "read-tree", "HEAD")
        git(plain, "add", "--all")
        return git(plain, "diff", "--cached", "--binary", "--full-index", "--no-renames")

    bench.compare("add -A + diff | make_submission", bare_diff, lambda _: make_submission(base, tree))
    patch = make_submission(base, tree).patch
    assert patch == bare_diff(0)

    changed = base_of(DirectorySource(path=str(tree)), cache=environment / "cache")
    undo = make_submission(changed, target).patch
    git(plain, "reset", "--quiet", "--hard")
    turns = {0: patch, 1: undo}
    bench.compare(
        f"git apply | apply_patch ({len(names) + 1} files)",
        lambda number: git(plain, "apply", "-", stdin=turns[number % 2]),
        lambda number: apply_patch(target, turns[number % 2], PatchKind.UNIFIED_DIFF, base=base),
    )
    bench.once(f"prove_no_leak over {files} files", lambda: prove_no_leak(patch, tree, commit=base.commit))


def remove(environment: Path, *patterns: str) -> None:
    for place in (place for pattern in patterns for place in environment.glob(pattern)):
        shutil.rmtree(place)


if __name__ == "__main__":
    main()
