"""``proctor view``: the results in a browser."""

import asyncio
import signal
import webbrowser

import click

_PORT = 8707


@click.command()
@click.argument("runs", nargs=-1, metavar="[RUN]...")
@click.option("--port", metavar="N", type=click.IntRange(0, 65535), help=f"The port. [default: {_PORT}, or a free one]")
@click.option("--open", "open_browser", is_flag=True, help="Open the page in the browser.")
def command(runs: tuple[str, ...], port: int | None, *, open_browser: bool) -> None:
    """Show results in a browser: all runs, or only those named. Pages of a running run update themselves.

    The server listens on loopback only, is read-only, and stops with Ctrl-C.
    """
    from proctor.report.viewer import serve  # noqa: PLC0415 - the help page needs none of it
    from proctor.report.viewer.run_index import RunIndex  # noqa: PLC0415
    from proctor.results import find_run  # noqa: PLC0415
    from proctor.results.store import results_root  # noqa: PLC0415

    chosen = [find_run(run) for run in runs]
    index = RunIndex(results_root(), chosen)

    def on_ready(url: str) -> None:
        names = index.names() if chosen else []
        if len(names) == 1:
            url += f"run/{names[0]}"
        click.echo(url)
        if open_browser:
            webbrowser.open(url)

    async def main() -> None:
        stopped = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, stopped.set)
        await serve(
            index, port=_PORT if port is None else port, strict_port=port is not None, on_ready=on_ready, stop=stopped
        )

    asyncio.run(main())
