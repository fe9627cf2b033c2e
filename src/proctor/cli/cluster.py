"""``proctor cluster``: the nodes of a Ray cluster side by side, data for all of them, and taking one out of service."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any

import click

from proctor.cli.output import log, print_json, print_table
from proctor.core.errors import InfrastructureError, UsageError
from proctor.core.formatting import file_size
from proctor.core.options import option_fields
from proctor.core.request import RunRequest

if TYPE_CHECKING:
    from proctor.doctor import Diagnosis
    from proctor.runner.executors.node_report import NodeReport
    from proctor.runner.executors.ray_cluster import ClusterNode, RayCluster

# A difference of clocks beyond this is worth a look: times in results are those of the nodes.
_CLOCK_SECONDS = 2.0


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
    """Show every node side by side: versions, programs, data, images, disk, Docker, clock.

    Exits 12 when a node cannot be used, or differs from the others in its version of Proctor or its data.
    """
    reports, diagnoses = asyncio.run(_on_all(address, insecure=insecure_cluster, work=_examine))
    rows, differing = _doctor_rows(reports, diagnoses)
    if as_json:
        print_json(reports)
    else:
        print_table(["", *(report.name for report in reports)], rows)
        for name in differing:
            log(f"the nodes differ: {name}")
    must_agree = any(name == "proctor" or name.startswith("data ") for name in differing)
    unusable = [report.name for report, found in zip(reports, diagnoses, strict=True) if not found.usable]
    for name in unusable:
        log(f"{name} cannot be used: see `proctor doctor` there")
    return InfrastructureError.exit_code if unusable or must_agree else 0


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

    size = option_fields(RunRequest)["image_disk"].read(image_disk, Path.cwd(), text=True)

    async def work(cluster: "RayCluster", nodes: Sequence["ClusterNode"]) -> Any:
        return await asyncio.gather(
            *(cluster.run_on(node, fetch_on_node, bench, split, origin, size) for node in nodes)
        )

    nodes, done = asyncio.run(_on_all(address, insecure=insecure_cluster, work=_with_nodes(work)))
    print_table(
        ["NODE", "STATE", "DATA"],
        [[node.name, "ok" if ok else "failed", text] for node, (ok, text) in zip(nodes, done, strict=True)],
    )
    return 0 if all(ok for ok, _ in done) else InfrastructureError.exit_code


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


def _with_nodes(
    work: "Callable[[RayCluster, Sequence[ClusterNode]], Awaitable[Any]]",
) -> "Callable[[RayCluster, Sequence[ClusterNode]], Awaitable[Any]]":
    async def both(cluster: "RayCluster", nodes: Sequence["ClusterNode"]) -> Any:
        return nodes, await work(cluster, nodes)

    return both


async def _examine(
    cluster: "RayCluster", nodes: Sequence["ClusterNode"]
) -> tuple[list["NodeReport"], list["Diagnosis"]]:
    from proctor.doctor import diagnose
    from proctor.runner.executors.node_report import report_node

    reports = await asyncio.gather(*(cluster.run_on(node, report_node, node.name, node.address) for node in nodes))
    return list(reports), list(await asyncio.gather(*(cluster.run_on(node, diagnose) for node in nodes)))


def _doctor_rows(
    reports: Sequence["NodeReport"], diagnoses: Sequence["Diagnosis"]
) -> tuple[list[list[str]], list[str]]:
    """A row for each thing, a column for each node; and in which of the things nodes differ that should not."""
    compared = {
        "proctor": [report.proctor for report in reports],
        "python": [report.machine.python for report in reports],
        "processor": [report.machine.processor for report in reports],
        "cpus": [str(report.machine.cpus) for report in reports],
        "memory": [file_size(report.machine.memory_mb << 20) for report in reports],
        "kernel": [report.machine.kernel for report in reports],
    }
    for name in sorted({name for report in reports for name in report.data}):
        compared[f"data {name}"] = [report.data.get(name, "missing") for report in reports]
    shown = {
        "address": [report.address for report in reports],
        **compared,
        "free disk": [file_size(report.free_bytes) for report in reports],
        "spooled attempts": [str(report.spooled) for report in reports],
    }
    first = reports[0].seconds
    shown["clock"] = [f"{report.seconds - first:+.1f} s" for report in reports]
    for number, check in enumerate(diagnoses[0].checks):
        shown[check.name] = [
            f"{found.checks[number].state.value}: {found.checks[number].detail}" for found in diagnoses
        ]
    differing = [name for name, values in compared.items() if len(set(values)) > 1]
    if max(abs(report.seconds - first) for report in reports) > _CLOCK_SECONDS:
        differing.append("clock")
    return [[name, *values] for name, values in shown.items()], differing
