"""A cluster of three nodes on this machine: each has network, processes, host name and file systems of its own.

Every node has two links: one to the other nodes, which a test can cut, and one to the provider of the model. Killing a
node's first process is what switching it off is: all of its processes end at once, and its home stays.
"""

import asyncio
import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
from aiohttp import web

from cli_world import STANDINS
from paths import REPOSITORY
from proctor.core.record import to_json
from proctor.core.run import JournalEntry
from proctor.results import RunStore
from proctor.results.journal import read_journal
from toy_provider import ANSWER_USD, KEY, MODEL, ServedTurn, ToyProvider

TOKEN = "dummy-token-of-this-cluster-0123456789abcdef"
LEASE_SECONDS = 8
# Several such clusters can be on one machine, each with networks of its own.
_NUMBER = os.environ.get("CLUSTER_WORLD") or os.environ.get("PYTEST_XDIST_WORKER", "").removeprefix("gw") or "0"
_NET = f"10.{77 + int(_NUMBER)}"
PROVIDER_HOST = f"{_NET}.2.1"
_UPLINK = f"proctor-{_NET}"
_PORT = 6379
_BIN = Path(sys.executable).parent
RAY = _BIN / "ray"


@dataclass(frozen=True)
class PaidRequest:
    """One line of the provider's books."""

    at: float
    address: str
    turn: ServedTurn


class BookProvider(ToyProvider):
    """A provider that books every request that arrives, whether its answer is read or not."""

    def __init__(self, *, turns: int = 6, delay: float = 0.2) -> None:
        super().__init__(turns=turns, delay=delay)
        self.books: list[PaidRequest] = []
        self.answers = asyncio.Event()  # while it is not set, requests wait
        self.answers.set()

    async def handle(self, request: web.Request) -> web.StreamResponse:
        if request.method == "POST" and request.path.endswith("/v1/messages"):
            turn = self._identify(await request.json())
            self.books.append(PaidRequest(time.monotonic(), request.remote or "", turn))
            await self.answers.wait()
        return await super().handle(request)

    @property
    def usd(self) -> float:
        return round(len(self.books) * ANSWER_USD, 6)

    def paid_twice(self) -> int:
        counts = Counter(entry.turn for entry in self.books)
        return sum(count - 1 for count in counts.values())


@dataclass
class WorldNode:
    """One machine of the cluster; `own_env`, and `hidden` files, which are empty there, hold from its next start."""

    number: int
    folder: Path
    first: "subprocess.Popen[bytes] | None" = None
    pid: int = 0
    env: dict[str, str] = field(default_factory=dict)
    own_env: dict[str, str] = field(default_factory=dict)
    hidden: list[Path] = field(default_factory=list)
    was_cut: bool = False

    @property
    def name(self) -> str:
        return f"node{self.number}"

    @property
    def address(self) -> str:
        return f"{_NET}.1.{10 + self.number}"

    @property
    def provider_address(self) -> str:
        return f"{_NET}.2.{10 + self.number}"

    @property
    def alive(self) -> bool:
        return self.first is not None and self.first.poll() is None


class ClusterWorld:
    """Starts, cuts, kills and joins nodes, and runs commands on them."""

    def __init__(self, folder: Path, *, nodes: int = 3, token: bool = True) -> None:
        self.folder = folder
        self.token = token
        self.nodes = {number: WorldNode(number, folder / f"node{number}") for number in range(1, nodes + 1)}
        plugins = folder / "plugins/toy-1.0.dist-info"
        plugins.mkdir(parents=True)
        (plugins / "METADATA").write_text("Metadata-Version: 2.1\nName: toy\nVersion: 1.0\n")
        (plugins / "entry_points.txt").write_text(
            "[proctor.benchmarks]\ntoy = toy_benchmark:SOURCE\n"
            "[proctor.environments]\nimaged = toy_images:ImagedProvider\n"
        )
        self.variables: dict[str, str] = {}
        self.python_path = ""
        self.dashboard = False  # which listings of the engine's state need, and nothing else

    @property
    def head(self) -> WorldNode:
        return self.nodes[1]

    @property
    def address(self) -> str:
        return f"{self.head.address}:{_PORT}"

    def open(self) -> None:
        """Make the two networks, in a namespace of their own: this machine may filter what passes its own bridges."""
        self._hub = subprocess.Popen(
            ["unshare", "--net", "sh", "-c", "ip link set lo up && echo ready && exec sleep infinity"],
            stdout=subprocess.PIPE,
        )
        assert self._hub.stdout is not None
        assert self._hub.stdout.readline() == b"ready\n"
        for letter in ("a", "b"):
            self._in_hub("link", "add", f"bridge-{letter}", "type", "bridge")
            self._in_hub("link", "set", f"bridge-{letter}", "up")
        subprocess.run(["ip", "link", "del", _UPLINK], check=False, capture_output=True)
        _ip("link", "add", _UPLINK, "type", "veth", "peer", "name", "uplink", "netns", str(self._hub.pid))
        _ip("addr", "add", f"{PROVIDER_HOST}/24", "dev", _UPLINK)
        _ip("link", "set", _UPLINK, "up")
        self._in_hub("link", "set", "uplink", "master", "bridge-b", "up")

    def close(self) -> None:
        """Switch all nodes off, and remove the networks."""
        for node in self.nodes.values():
            self.kill(node)
        self._hub.kill()
        self._hub.wait()
        assert self._hub.stdout is not None
        self._hub.stdout.close()
        subprocess.run(["ip", "link", "del", _UPLINK], check=False, capture_output=True)

    def _in_hub(self, *words: str) -> None:
        subprocess.run(
            ["nsenter", "--target", str(self._hub.pid), "--net", "ip", *words], check=True, capture_output=True
        )

    def boot(self, node: WorldNode) -> None:
        """Switch a node on; nothing of the engine runs on it yet."""
        for name in ("home", "tmp", "results"):
            (node.folder / name).mkdir(parents=True, exist_ok=True)
        shutil.rmtree(node.folder / "tmp", ignore_errors=True)
        (node.folder / "tmp").mkdir()
        if in_tmp := REPOSITORY.is_relative_to("/tmp"):
            (node.folder / "tmp" / REPOSITORY.relative_to("/tmp")).mkdir(parents=True)
        # A checkout among the temporary files is seen by every node.
        kept = f"mount --rbind {REPOSITORY} {node.folder}/tmp/{REPOSITORY.relative_to('/tmp')} && " if in_tmp else ""
        setup = (
            f"{kept}mount --rbind {node.folder}/tmp /tmp && mount -t tmpfs -o size=512m tmpfs /dev/shm"
            f" && hostname {node.name} && ip link set lo up && echo ready && exec sleep infinity"
        )
        node.first = subprocess.Popen(
            [
                "unshare",
                "--net",
                "--mount",
                "--uts",
                "--pid",
                "--fork",
                "--kill-child",
                "--mount-proc",
                "sh",
                "-c",
                setup,
            ],
            stdout=subprocess.PIPE,
        )
        assert node.first.stdout is not None
        assert node.first.stdout.readline() == b"ready\n"
        (child,) = psutil.Process(node.first.pid).children()
        node.pid = child.pid
        for letter, address in (("a", node.address), ("b", node.provider_address)):
            ours, theirs = f"node-{letter}{node.number}", f"eth-{letter}"
            with contextlib.suppress(subprocess.CalledProcessError):
                self._in_hub("link", "del", ours)  # of the node as it was before it was switched off
            self._in_hub("link", "add", ours, "type", "veth", "peer", "name", theirs, "netns", str(node.pid))
            self._in_hub("link", "set", ours, "master", f"bridge-{letter}", "up")
            self._inside(node, "ip", "addr", "add", f"{address}/24", "dev", theirs)
            self._inside(node, "ip", "link", "set", theirs, "up")
        node.env = {
            "PATH": f"{_BIN}:{os.environ.get('PATH', os.defpath)}",
            "HOME": str(node.folder / "home"),
            "XDG_CACHE_HOME": str(node.folder / "cache"),
            "PROCTOR_RESULTS": str(node.folder / "results"),
            "PYTHONPATH": self.modules(REPOSITORY / "src"),
            "PROCTOR_LEASE_SECONDS": str(LEASE_SECONDS),
            "PROCTOR_TRACEBACK": "1",
            "TOY_TASKS": "12",
            "RAY_DISABLE_IMPORT_WARNING": "1",
            "RAY_USAGE_STATS_ENABLED": "0",
            "RAY_enable_metrics_collection": "0",
            "RAY_worker_niceness": "0",
            "RAY_memory_monitor_refresh_ms": "0",
            "RAY_raylet_start_wait_time_s": "60",  # 30 by default, in which a busy machine does not start a node
            "RAY_agent_register_timeout_ms": "80000",
            "RAY_AUTH_MODE": "token" if self.token else "disabled",
            **({"RAY_AUTH_TOKEN": TOKEN} if self.token else {}),
            **self.variables,
            **node.own_env,
        }
        for file in node.hidden:
            subprocess.run(self.command(node, "mount", "--bind", "/dev/null", file), check=True)

    def modules(self, source: Path) -> str:
        """Where a node finds modules; `source` has Proctor itself."""
        return ":".join(map(str, (source, STANDINS, self.folder / "plugins", self.python_path)))

    def _inside(self, node: WorldNode, *words: str) -> None:
        subprocess.run(["nsenter", "--target", str(node.pid), "--net", *words], check=True, capture_output=True)

    async def start_engine(self, node: WorldNode, **env: str) -> None:
        """Make a node part of the cluster; the first one is its head."""
        where = (
            ["--head", f"--port={_PORT}", f"--include-dashboard={str(self.dashboard).lower()}", "--no-monitor"]
            if node is self.head
            else [f"--address={self.address}"]
        )
        small = ["--object-store-memory=80000000", "--num-cpus=0", "--disable-usage-stats"]
        small += ["--include-log-monitor=false"]
        # A raylet ends where its agents are not up after 15 s, as on a busy machine: then it is started again.
        for _ in range(10):
            code, output = await self.run(
                node, str(RAY), "start", *where, f"--node-ip-address={node.address}", *small, seconds=120, **env
            )
            if code == 0:
                return
            self.kill(node)
            self.boot(node)
        raise AssertionError(f"{node.name} does not start: {output[-2000:]}")

    async def start(self, *numbers: int) -> None:
        """Switch on these nodes, or all, and have them join: the head first, then the others at once."""
        nodes = [self.nodes[number] for number in numbers or self.nodes]
        for node in nodes:
            if not node.alive:
                self.boot(node)
        if self.head in nodes:
            await self.start_engine(self.head)
        await asyncio.gather(*(self.start_engine(node) for node in nodes if node is not self.head))

    async def restart(self, node: WorldNode) -> None:
        """Switch a node on again, with the home that it had."""
        self.kill(node)
        await self.start(node.number)

    async def restore(self) -> None:
        """Have nodes that were cut off or switched off start anew."""
        lost = [node for node in self.nodes.values() if node.was_cut or not node.alive]
        for node in lost:
            self.kill(node)
        if lost:
            await self.start(*(node.number for node in lost))

    def kill(self, node: WorldNode) -> None:
        """Switch a node off."""
        if node.first is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(node.pid, signal.SIGKILL)
            node.first.kill()
            node.first.wait()
            assert node.first.stdout is not None
            node.first.stdout.close()
            node.first = None
            node.was_cut = False

    def cut(self, node: WorldNode) -> None:
        """Cut a node off the others, whose engine gives it up; it still reaches the provider."""
        node.was_cut = True
        self._in_hub("link", "set", f"node-a{node.number}", "down")

    def heal(self, node: WorldNode) -> None:
        self._in_hub("link", "set", f"node-a{node.number}", "up")

    def command(self, node: WorldNode, *words: object) -> list[str]:
        spaces = ("--net", "--mount", "--uts", "--pid", f"--wd={node.folder}")
        return ["nsenter", "--target", str(node.pid), *spaces, *map(str, words)]

    async def run(self, node: WorldNode, *words: object, seconds: float = 400, **env: Any) -> tuple[int, str]:
        """Run a command on a node to its end; its exit code, and all that it wrote."""
        # To a file: what the engine starts lives on, and would keep a pipe open.
        with tempfile.TemporaryFile() as output:
            process = await self.spawn(node, *words, output=output, **env)
            try:
                code = await asyncio.wait_for(process.wait(), seconds)
            except TimeoutError:
                with contextlib.suppress(ProcessLookupError):
                    process.kill()
                code = -1
            output.seek(0)
            return code, output.read().decode(errors="replace")

    async def spawn(
        self, node: WorldNode, *words: object, output: Any = None, **env: str
    ) -> asyncio.subprocess.Process:
        return await asyncio.create_subprocess_exec(
            *self.command(node, *words),
            env={**node.env, **env},
            stdin=asyncio.subprocess.DEVNULL,
            stdout=output or asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )

    def toy_words(self, provider: BookProvider, *more: object) -> tuple[object, ...]:
        return (
            *(_BIN / "proctor", "bench", "run", "toy", "--agent", "command", "--agent-bin"),
            STANDINS / "toy_agent.py",
            *("--agent-command", """sh -c 'exec python3 -I -S "$PROCTOR_AGENT"'"""),
            *("--model", MODEL, "--max-turns", provider.turns, "--grade-concurrency", 2),
            *self.executor_words(),
            *more,
        )

    def access(self, provider: BookProvider) -> dict[str, Any]:
        return {"ANTHROPIC_BASE_URL": provider.url, "ANTHROPIC_API_KEY": KEY}

    async def start_run(self, provider: BookProvider, *more: object, **env: str) -> asyncio.subprocess.Process:
        return await self.spawn(self.head, *self.toy_words(provider, *more), **self.access(provider), **env)

    def resume_words(self, *more: object) -> tuple[object, ...]:
        name = f"toy/{self.store().run_id}"
        return (_BIN / "proctor", "bench", "resume", name, *self.executor_words(), *more)

    def executor_words(self) -> tuple[object, ...]:
        return ("--executor", "ray", "--address", self.address, "--node-slots", 2)

    async def start_resume(self, provider: BookProvider, *more: object) -> asyncio.subprocess.Process:
        return await self.spawn(self.head, *self.resume_words(*more), **self.access(provider))

    async def resume(self, provider: BookProvider, *more: object) -> tuple[int, str]:
        return await self.run(self.head, *self.resume_words(*more), **self.access(provider))

    async def proctor(self, *words: object, **env: Any) -> tuple[int, str]:
        """Run a command of Proctor on the head."""
        return await self.run(self.head, _BIN / "proctor", *words, **env)

    def store(self) -> RunStore:
        """The last run that there is."""
        return RunStore(max((self.head.folder / "results" / "toy").glob("run-*")))

    def workers(self, node: WorldNode) -> list[psutil.Process]:
        """What a driver has started on a node."""
        return [
            process
            for process in psutil.process_iter(["cmdline"])
            if "NodeWorker" in " ".join(process.info["cmdline"] or ()) and is_of(process, node)
        ]

    def left_over(self) -> list[str]:
        """What of ended sessions still runs on nodes: workers, agents and their environments."""
        found = []
        for process in psutil.process_iter(["cmdline"]):
            words = " ".join(process.info["cmdline"] or ())
            is_ours = "NodeWorker" in words or "bwrap" in words or "toy_agent" in words or "PROCTOR_AGENT" in words
            if is_ours and any(is_of(process, node) for node in self.nodes.values()):
                found.append(words)
        return found

    def journal(self) -> list[JournalEntry]:
        return list(read_journal(self.store().journal))

    def spools(self) -> list[Path]:
        """What nodes keep of attempts at the last run."""
        run_id = self.store().run_id
        found = [name for node in self.nodes.values() for name in node.folder.glob("cache/proctor/spool/*/*/*.json")]
        return [name.parent for name in found if json.loads(name.read_bytes())["run"].split("/")[1] == run_id]


@asynccontextmanager
async def book_provider(
    *, turns: int = 6, delay: float = 0.2, host: str = PROVIDER_HOST
) -> AsyncIterator[BookProvider]:
    """The provider, where the nodes reach it."""
    provider = BookProvider(turns=turns, delay=delay)
    app = web.Application(client_max_size=2**28)
    app.router.add_route("*", "/{tail:.*}", provider.handle)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, host, 0)
    await site.start()
    port = runner.addresses[0][1]
    provider.url = f"http://{host}:{port}"
    try:
        yield provider
    finally:
        await runner.cleanup()


def missing() -> str | None:
    """Why no such cluster can be made here."""
    if sys.platform != "linux" or os.geteuid() != 0:
        return "namespaces are made by root on Linux"
    if not RAY.exists():
        return "Ray is not installed: pip install 'ray[default]'"
    if shutil.which("ip") is None or shutil.which("unshare") is None:
        return "ip and unshare are not installed"
    return None


def is_of(process: psutil.Process, node: WorldNode) -> bool:
    """Whether a process runs on a node."""
    try:
        return Path(f"/proc/{process.pid}/ns/pid").stat().st_ino == Path(f"/proc/{node.pid}/ns/pid").stat().st_ino
    except OSError:
        return False


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)


_OF_A_MOMENT = {"run_id", "started_at", "ended_at", "seconds", "agent_seconds", "grade_seconds", "node", "machine"}
_OF_A_MOMENT |= {"active_seconds", "idle_seconds", "active_share"}


def result_rows(store: RunStore) -> dict[str, Any]:
    """Results without what differs between machines and moments."""
    return {result.task_id: _without(json.loads(to_json(result)), _OF_A_MOMENT) for result in store.results()}


def _without(value: Any, names: set[str]) -> Any:
    if isinstance(value, dict):
        return {name: _without(inner, names) for name, inner in value.items() if name not in names}
    return [_without(inner, names) for inner in value] if isinstance(value, list) else value
