"""How long environments take, against the programs that they are made of, in the same run.

    python perf/environments.py [ROUNDS]

The middle of ROUNDS (20) each, in milliseconds, and how many times the plainest way that is. Containers are measured
where there is an engine with the tests' image on it (tests/make_base_image.sh).
"""

import asyncio
import shutil
import statistics
import subprocess
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from cli_args import number_arguments

from proctor.core.environment import EnvironmentProvider, EnvironmentSpec
from proctor.environments import docker_unavailable_reason, local_unavailable_reason
from proctor.environments.bubblewrap import find_bubblewrap
from proctor.environments.docker import DockerProvider
from proctor.environments.local import LocalProvider

IMAGE = "proctor-test/base:bookworm"
(ROUNDS,) = number_arguments(__doc__, rounds=20)


async def middle(action: Callable[[], Awaitable[object]], rounds: int = ROUNDS) -> float:
    """The median time of an action, in milliseconds, after one round that does not count."""
    times = []
    for number in range(rounds + 1):
        started = time.perf_counter()
        await action()
        if number:
            times.append((time.perf_counter() - started) * 1000)
    return statistics.median(times)


def command(*argv: str) -> Callable[[], Awaitable[object]]:
    async def run() -> None:
        await asyncio.to_thread(subprocess.run, argv, check=True, stdout=subprocess.DEVNULL)

    return run


def whole_environment(provider: EnvironmentProvider, spec: EnvironmentSpec) -> Callable[[], Awaitable[object]]:
    async def run() -> None:
        async with await provider.start(spec) as environment:
            assert (await environment.exec(["true"])).exit_code == 0

    return run


def table(title: str, rows: list[tuple[str, float]]) -> None:
    """Print the rows; the first is what the others are held against."""
    print(f"\n{title}")
    for name, milliseconds in rows:
        print(f"  {name:44}{milliseconds:10.1f} ms{milliseconds / rows[0][1]:8.1f} x")


def make_tree(folder: Path, files: int) -> Path:
    for number in range(files):
        if number % 100 == 0:
            part = folder / f"part{number // 100}"
            part.mkdir(parents=True)
        (part / f"file{number}").write_text(f"{number}\n" * 20)
    return folder


async def commands(scratch: Path) -> None:
    bare = [find_bubblewrap(), "--unshare-all", "--die-with-parent", "--ro-bind", "/", "/", "--dev", "/dev"]
    local = LocalProvider(environments_dir=scratch / "environments")
    plain = LocalProvider(isolation=False, environments_dir=scratch / "environments")
    table(
        "start, run `true`, stop",
        [
            ("a subprocess", await middle(command("true"))),
            ("bwrap … true", await middle(command(*bare, "--proc", "/proc", "true"))),
            ("local environment", await middle(whole_environment(local, EnvironmentSpec()))),
            ("local environment, isolation off", await middle(whole_environment(plain, EnvironmentSpec()))),
        ],
    )
    async with await local.start(EnvironmentSpec()) as environment:
        table(
            "one more command in an environment that is there",
            [
                ("a subprocess", await middle(command("true"), 5 * ROUNDS)),
                ("exec", await middle(lambda: environment.exec(["true"]), 5 * ROUNDS)),
                (
                    "exec with 1 MB of input",
                    await middle(lambda: environment.exec(["cat"], stdin=b"x" * 10**6), ROUNDS),
                ),
            ],
        )
        started = time.perf_counter()
        await environment.exec(["head", "-c", "1000000000", "/dev/zero"])
        print(f"  {'output, 1 GB thrown away':44}{1 / (time.perf_counter() - started):10.1f} GB/s")


async def workspaces(scratch: Path, files: int) -> None:
    tree = make_tree(scratch / f"tree{files}", files)
    spec = EnvironmentSpec(workspace=tree)
    copy = scratch / "copy"
    rounds = max(3, ROUNDS // 4)

    async def by_cp() -> None:
        await command("cp", "-r", str(tree), str(copy))()
        await command("rm", "-rf", str(copy))()

    async def first_look() -> None:
        await whole_environment(LocalProvider(environments_dir=scratch / "environments"), spec)()

    overlay = LocalProvider(environments_dir=scratch / "environments")
    copied = LocalProvider(overlay=False, environments_dir=scratch / "environments")
    table(
        f"a workspace of {files} files: start, run `true`, stop",
        [
            ("cp -r; rm -rf", await middle(by_cp, rounds)),
            ("local environment, copied", await middle(whole_environment(copied, spec), rounds)),
            ("local environment, overlay, a new tree", await middle(first_look, rounds)),
            ("local environment, overlay, a known tree", await middle(whole_environment(overlay, spec), rounds)),
        ],
    )
    async with await overlay.start(spec) as environment:

        async def out() -> None:
            await environment.get(environment.workdir, copy)
            await asyncio.to_thread(shutil.rmtree, copy)

        print(f"  {'copied out of an environment, and removed':44}{await middle(out, 3):10.1f} ms")


async def containers(scratch: Path) -> None:
    reason = await docker_unavailable_reason()
    if reason is not None:
        print(f"\nno containers: {reason}")
        return
    provider = DockerProvider(image=IMAGE)
    rounds = max(3, ROUNDS // 4)
    table(
        "in a container: start, run `true`, stop",
        [
            ("docker run --rm … true", await middle(command("docker", "run", "--rm", IMAGE, "true"), rounds)),
            ("docker environment", await middle(whole_environment(provider, EnvironmentSpec()), rounds)),
        ],
    )
    async with await provider.start(EnvironmentSpec()) as environment:
        identity = environment._container.id  # type: ignore[attr-defined]  # noqa: SLF001
        table(
            "one more command in a container that is there",
            [
                ("docker exec … true", await middle(command("docker", "exec", identity, "true"), rounds)),
                ("exec", await middle(lambda: environment.exec(["true"]), rounds)),
            ],
        )
    for files in (2000, 20_000):
        spec = EnvironmentSpec(workspace=scratch / f"tree{files}")
        taken = await middle(whole_environment(provider, spec), 3)
        print(f"  {f'docker environment, workspace of {files} files':44}{taken:10.1f} ms")
    await provider.close()


async def main() -> None:
    reason = await local_unavailable_reason()
    if reason is not None:
        print(f"no local environments: {reason}")
        return
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        scratch = Path(folder)
        await commands(scratch)
        for files in (2000, 20_000):
            await workspaces(scratch, files)
        await containers(scratch)


asyncio.run(main())
