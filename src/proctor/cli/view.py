"""``proctor view``: the results in a browser."""

import asyncio
import signal
import socket
import webbrowser
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote, urlsplit

import click

from proctor.cli.groups import completes, results_option

if TYPE_CHECKING:
    from proctor.report.run_index import RunIndex

_PORT = 8707
_ALL_ADDRESSES = {"0.0.0.0", "::"}  # noqa: S104 - as --host may say


@click.command()
@click.argument("runs", nargs=-1, metavar="[RUN]...", shell_complete=completes("runs"))
@click.option("--port", metavar="N", type=click.IntRange(0, 65535), help=f"The port. [default: {_PORT}, or a free one]")
@results_option
@click.option(
    "--host",
    metavar="ADDRESS",
    help="Listen on this address of the machine, such as 0.0.0.0; who opens the pages needs the token that is printed.",
)
@click.option(
    "--token", metavar="TEXT", envvar="PROCTOR_VIEW_TOKEN", help="With --host: the token. [default: a new one]"
)
@click.option(
    "--bundle",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="Write the pages to a new folder instead, for any web server; they hold no raw logs, and no keys.",
)
@click.option("--open", "open_browser", is_flag=True, help="Open the page in the browser.")
def command(
    runs: tuple[str, ...],
    port: int | None,
    host: str | None,
    token: str | None,
    bundle: Path | None,
    *,
    open_browser: bool,
) -> None:
    """Show results in a browser: all runs, or only those named. Pages of a running run update themselves.

    The server listens on loopback only, unless --host says otherwise, is read-only, and stops with Ctrl-C.
    """
    from proctor.report.run_index import RunIndex
    from proctor.report.viewer import serve
    from proctor.report.viewer.access import LOOPBACK, new_token
    from proctor.results import find_run
    from proctor.results.store import results_root

    chosen = [find_run(run) for run in runs]
    index = RunIndex(results_root(), chosen)
    if bundle is not None:
        _write_bundle(index, bundle)
        return
    if token is not None and host is None:
        raise click.UsageError("--token is for --host")
    if host is not None and not host.strip():
        raise click.UsageError("--host is empty")
    access = None if host is None else token or new_token()

    def on_ready(url: str) -> None:
        url = _first_address(url, index.names() if chosen else [], access)
        click.echo(url)
        if open_browser:
            webbrowser.open(url)

    async def main() -> None:
        stopped = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, stopped.set)
        await serve(
            index,
            port=_PORT if port is None else port,
            strict_port=port is not None,
            on_ready=on_ready,
            stop=stopped,
            host=host or LOOPBACK,
            token=access,
        )

    asyncio.run(main())


def _first_address(url: str, names: list[str], token: str | None) -> str:
    """The address to open: of the only run, if it is one; with a host name, if all addresses are listened on."""
    parts = urlsplit(url)
    if parts.hostname in _ALL_ADDRESSES:
        url = parts._replace(netloc=f"{socket.gethostname()}:{parts.port}").geturl()
    if len(names) == 1:
        url += f"run/{quote(names[0])}"
    return url if token is None else f"{url}?token={quote(token)}"


def _write_bundle(index: "RunIndex", folder: Path) -> None:
    from proctor.cli.output import log
    from proctor.report.viewer.bundle import write_bundle

    pages = write_bundle(index, folder, log)
    click.echo(f"{folder / 'index.html'}: {pages} pages")
