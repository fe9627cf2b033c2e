"""``proctor cluster``: the nodes of a Ray cluster side by side, data for all of them, and taking one out of service."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any

import click

from proctor.cli.output import log, print_json, print_table
from proctor.core.errors import InfrastructureError, UsageError
from proctor.core.options import option_fields
from proctor.core.request import RunRequest

if TYPE_CHECKING:
    from proctor.runner.executors.ray_cluster import ClusterNode, RayCluster


@click.group()
def command() -> None:
    """The nodes of a Ray cluster."""


def _cluster_options(function: Callable[..., Any]) -> Callable[..., Any]:
    insecure = option_fields(RunRequest)["insecure_cluster"].option.help.removeprefix("With --executor ray: ")
    function = click.option("--insecure-cluster", is_flag=True, help=insecure[0].upper() + insecure[1:])(function)
    return click.option(
        "--address", metavar="HOST:PORT", help="The cluster. [default: the one that this machine is a node of]"
    )(function)


@command.command()
@_cluster_options
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")
def doctor(*, address: str | None, insecure_cluster: bool, as_json: bool) -> int:
    """Show every node side by side: versions, programs, data, images, disk, Docker, token, clock.

    Exits 12 when a node cannot be used, or differs from the others in its version of Proctor or its data.
    """
    from proctor.cli.cluster_doctor import diagnose_nodes, doctor_table, find_problems

    nodes = asyncio.run(_on_all(address, insecure=insecure_cluster, work=diagnose_nodes))
    if as_json:
        print_json(nodes)
    else:
        print_table(["", *(node.name for node in nodes)], doctor_table(nodes))
    problems = find_problems(nodes)
    for problem in problems:
        log(problem.text)
    return InfrastructureError.exit_code if any(problem.serious for problem in problems) else 0


@command.command()
@click.argument("bench")
@click.option("--split", metavar="NAME", help="A part of the benchmark, where it has several.")
@click.option("--from", "origin", metavar="PATH", help="A copy, at the same path on every node.")
@click.option(
    "--image-disk", metavar="SIZE", help="Fetch the images of its tasks too, within this disk space per node."
)
@_cluster_options
def fetch(
    *,
    bench: str,
    split: str | None,
    origin: str | None,
    image_disk: str | None,
    address: str | None,
    insecure_cluster: bool,
) -> int:
    """Bring the data of BENCH to every node, ahead of a run."""
    from pathlib import Path

    from proctor.runner.executors.node_report import fetch_on_node
    from proctor.runner.executors.ray_cluster import NodeGone

    size = option_fields(RunRequest)["image_disk"].read(image_disk, Path.cwd(), text=True)
    source = None if origin is None else str(Path(origin).absolute())

    async def work(cluster: "RayCluster", nodes: Sequence["ClusterNode"]) -> list[tuple[str, bool, str]]:
        async def fetch_to(node: "ClusterNode") -> tuple[str, bool, str]:
            try:
                return node.name, *await cluster.run_on(node, fetch_on_node, bench, split, source, size)
            except NodeGone as gone:
                return node.name, False, str(gone)

        return list(await asyncio.gather(*map(fetch_to, nodes)))

    done = asyncio.run(_on_all(address, insecure=insecure_cluster, work=work))
    print_table(["NODE", "STATE", "DATA"], [[name, "ok" if ok else "failed", text] for name, ok, text in done])
    return 0 if all(ok for _, ok, _ in done) else InfrastructureError.exit_code


@command.command()
@click.argument("node")
@click.option("--undo", is_flag=True, help="Undo the drain.")
@_cluster_options
def drain(*, node: str, undo: bool, address: str | None, insecure_cluster: bool) -> int:
    """Give NODE no further trials, in all runs; what it works on is finished."""

    async def work(cluster: "RayCluster", nodes: Sequence["ClusterNode"]) -> None:
        found = [one for one in nodes if node in {one.name, one.address, one.id}]
        if not found:
            names = ", ".join(one.name for one in nodes)
            raise UsageError(f"the cluster has no node {node!r}", fix=f"choose one of {names}")
        await cluster.drain(found[0], undo=undo)

    asyncio.run(_on_all(address, insecure=insecure_cluster, work=work))
    log(f"{node} is no longer drained" if undo else f"{node} gets no further trials; `ray stop` there once it is idle")
    return 0


async def _on_all(
    address: str | None, *, insecure: bool, work: "Callable[[RayCluster, Sequence[ClusterNode]], Awaitable[Any]]"
) -> Any:
    from proctor.runner.executors.ray_cluster import NodeGone, RayCluster

    cluster = await RayCluster.connect(address, insecure=insecure)
    try:
        return await work(cluster, sorted(await cluster.nodes(), key=lambda node: node.name))
    except NodeGone as gone:
        raise InfrastructureError(f"a node has left the cluster: {gone}", fix="try again") from gone
    finally:
        await cluster.close()
