"""The viewer's HTTP server: routes, request checks, event streams."""

import asyncio
import importlib.resources
import logging
import os
import socket
import traceback
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

import jinja2
from aiohttp import web

from proctor.core import formatting
from proctor.core.errors import InfrastructureError, ProctorError, UsageError
from proctor.report.run_index import RunIndex
from proctor.report.viewer import pages, template_filters
from proctor.report.viewer.access import LOOPBACK, Access
from proctor.report.viewer.compare import compare_page, relative_change
from proctor.results import usage_cost

_POLL_SECONDS: Final = 0.7
_KEEPALIVE_SECONDS: Final = 15.0
_MAX_ADDRESS: Final = 1 << 18  # the address of a comparison names all of its runs
STATIC: Final = {"view.css": "text/css", "view.js": "text/javascript", "icon.svg": "image/svg+xml"}
_SECURITY_HEADERS: Final = {
    # Only our own style sheet, script and icon are loaded, whatever an agent wrote into a page.
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
_RAW_FILE_HEADERS: Final = {"Content-Security-Policy": "default-src 'none'; sandbox; frame-ancestors 'none'"}

_FILTERS: Final[tuple[Callable[..., Any], ...]] = (
    *(formatting.duration, formatting.file_size, formatting.money, formatting.percent, formatting.plural),
    *(formatting.percentage_points, formatting.short_count, formatting.timestamp, formatting.visible),
    relative_change,
    *(template_filters.pretty_json, template_filters.since_start, template_filters.sum_tokens, usage_cost),
)

PageHandler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Viewer:
    """The application. Requests read files one at a time."""

    def __init__(self, index: RunIndex, access: Access | None = None) -> None:
        self._index = index
        self._access = access or Access()
        self._read_lock = asyncio.Lock()
        self._event_streams: set[asyncio.Task[Any]] = set()
        self._templates = templates()
        self._static = {
            name: (importlib.resources.files("proctor.report.viewer") / "static" / name).read_bytes() for name in STATIC
        }

    def application(self) -> web.Application:
        """The application."""
        app = web.Application(middlewares=[self._check_request], client_max_size=1024)
        run = "/run/{benchmark}/{run}"
        app.add_routes(
            [
                web.get("/", self._page("runs.html", lambda request: pages.runs_page(self._index, request.query))),
                web.get("/compare", self._page("compare.html", self._compare_context)),
                web.get(run, self._page("run.html", self._run_context(pages.run_page))),
                web.get(f"{run}/task", self._page("task.html", self._run_context(pages.task_page))),
                web.get(f"{run}/steps", self._page("steps.html", self._run_context(pages.steps_page))),
                web.get(f"{run}/patch", self._page("patch_file.html", self._run_context(pages.patch_file_page))),
                web.get(f"{run}/file", self._file),
                web.get(f"{run}/atif", self._atif),
                web.get(f"{run}/events", self._events),
                web.get("/static/{name}", self._asset),
            ]
        )
        app.on_shutdown.append(self._stop_event_streams)
        return app

    @web.middleware
    async def _check_request(self, request: web.Request, handler: PageHandler) -> web.StreamResponse:
        refused = self._access.refusal(request)
        if refused is not None:
            status, sentence = refused
            context = {"sentence": sentence, "status": status, "given": request.query.items()}
            response: web.StreamResponse = self._render("error.html", context, status=status)
        elif (redirected := self._access.redirect(request)) is not None:
            response = redirected
        elif request.method not in {"GET", "HEAD"}:
            response = web.Response(status=405, text="This server is read-only.\n", headers={"Allow": "GET, HEAD"})
        elif _is_cross_site(request):
            response = web.Response(status=403, text="Other sites may not read this.\n")
        else:
            response = await self._handle(request, handler)
        if not response.prepared:
            for name, value in _SECURITY_HEADERS.items():
                response.headers.setdefault(name, value)
        return response

    async def _handle(self, request: web.Request, handler: PageHandler) -> web.StreamResponse:
        try:
            return await handler(request)
        except UsageError as error:
            return self._render("error.html", {"sentence": error.sentence, "status": 404}, status=404)
        except (ProctorError, OSError) as error:
            sentence = error.sentence if isinstance(error, ProctorError) else str(error)
            return self._render("error.html", {"sentence": sentence, "status": 500}, status=500)
        except web.HTTPException as error:
            return self._render("error.html", {"sentence": error.reason, "status": error.status}, status=error.status)
        except Exception as error:  # noqa: BLE001 - the last resort: one page fails, and the server continues
            if os.environ.get("PROCTOR_TRACEBACK"):
                traceback.print_exception(error)
            sentence = f"internal error ({type(error).__name__}: {error}); this is a bug in Proctor"
            return self._render("error.html", {"sentence": sentence, "status": 500}, status=500)

    def _page(self, template: str, make: Callable[[web.Request], Mapping[str, Any]]) -> PageHandler:
        async def handle(request: web.Request) -> web.StreamResponse:
            page: web.Response = await self._in_thread(lambda: self._render(template, make(request)))
            return page

        return handle

    def _run_context(
        self, page: Callable[[RunIndex, str, pages.QueryParams], Mapping[str, Any]]
    ) -> Callable[[web.Request], Any]:
        return lambda request: page(self._index, _run_name(request), request.query)

    def _compare_context(self, request: web.Request) -> Mapping[str, Any]:
        return compare_page(self._index, request.query, request.query.getall("run", []))

    async def _in_thread(self, work: Callable[[], Any]) -> Any:
        async with self._read_lock:
            return await asyncio.to_thread(work)

    def _render(self, template: str, context: Mapping[str, Any], *, status: int = 200) -> web.Response:
        html = self._templates.get_template(template).render(context)
        body = html.encode("utf-8", "replace")
        return web.Response(body=body, status=status, content_type="text/html", charset="utf-8")

    async def _file(self, request: web.Request) -> web.StreamResponse:
        path = await self._in_thread(lambda: pages.open_file(self._index, _run_name(request), request.query))
        # As plain text in a sandbox: a log that contains HTML is not rendered.
        return web.FileResponse(
            path, headers={**_SECURITY_HEADERS, **_RAW_FILE_HEADERS, "Content-Type": "text/plain; charset=utf-8"}
        )

    async def _atif(self, request: web.Request) -> web.StreamResponse:
        body = await self._in_thread(lambda: pages.atif_file(self._index, _run_name(request), request.query))
        headers = {**_RAW_FILE_HEADERS, "Content-Disposition": 'attachment; filename="trajectory.json"'}
        return web.Response(body=body, content_type="application/json", headers=headers)

    async def _asset(self, request: web.Request) -> web.StreamResponse:
        name = request.match_info["name"]
        if name not in self._static:
            raise UsageError(f"there is no {name!r} here")
        return web.Response(body=self._static[name], content_type=STATIC[name], charset="utf-8")

    async def _events(self, request: web.Request) -> web.StreamResponse:
        """Notify a page whenever it is out of date, while it is connected; `seen` is the version that it shows."""

        def read_version() -> str:
            return pages.page_version(self._index, _run_name(request), request.query)

        current = await self._in_thread(read_version)
        seen = request.query.get("seen", current)
        response = web.StreamResponse(headers={**_SECURITY_HEADERS, "Content-Type": "text/event-stream"})
        await response.prepare(request)
        task = asyncio.current_task()
        if task is not None:
            self._event_streams.add(task)
        idle_seconds = 0.0
        try:
            await response.write(b": connected\n\n")
            while True:
                current, idle_seconds = await self._in_thread(read_version), idle_seconds + _POLL_SECONDS
                if current != seen:
                    await response.write(b"event: changed\ndata: 1\n\n")
                    seen = current
                elif idle_seconds > _KEEPALIVE_SECONDS:
                    await response.write(b": keep-alive\n\n")
                    idle_seconds = 0.0
                await asyncio.sleep(_POLL_SECONDS)
        except (OSError, ProctorError):
            pass  # the page was closed, or its run was removed
        finally:
            if task is not None:
                self._event_streams.discard(task)
        return response

    async def _stop_event_streams(self, _: web.Application) -> None:
        for task in self._event_streams:
            task.cancel()


def _is_cross_site(request: web.Request) -> bool:
    """Whether the request comes from a page of another site, and is not a link that the user followed."""
    other_site = request.headers.get("Sec-Fetch-Site") in {"cross-site", "same-site"}
    return other_site and request.headers.get("Sec-Fetch-Mode") != "navigate"


def _run_name(request: web.Request) -> str:
    return f"{request.match_info['benchmark']}/{request.match_info['run']}"


def templates(*, static: bool = False) -> jinja2.Environment:
    """The templates; `static` are those of pages that no server answers for."""
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("proctor.report.viewer"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {function.__name__: function for function in _FILTERS}
    environment.globals |= {
        "url": template_filters.url,
        "static": static,
        "per_page": pages.STEPS_PER_PAGE,
        "lines_at_once": pages.LINES_AT_ONCE,
    }
    return environment


async def serve(
    index: RunIndex,
    *,
    port: int,
    strict_port: bool,
    on_ready: Callable[[str], None],
    stop: asyncio.Event,
    host: str = LOOPBACK,
    token: str | None = None,
) -> None:
    """Serve until `stop` is set. `on_ready` gets the URL. If the port is taken, another is used unless `strict_port`.

    On another `host` than loopback, whoever asks needs the `token`.

    Raises:
        UsageError: another host than loopback is to be served without a token.
        InfrastructureError: the address cannot be used.
    """
    if host != LOOPBACK and not token:
        raise UsageError(f"binding to {host} exposes all results", fix="give a token")
    listening = _listen(host, port, strict=strict_port)
    number = listening.getsockname()[1]
    runner = web.AppRunner(
        Viewer(index, Access(token)).application(),
        access_log=None,
        logger=_quiet_logger(),
        shutdown_timeout=1.0,
        max_line_size=_MAX_ADDRESS,
    )
    await runner.setup()
    try:
        await web.SockSite(runner, listening).start()
        on_ready(f"http://{f'[{host}]' if ':' in host else host}:{number}/")
        await stop.wait()
    finally:
        await runner.cleanup()


def _quiet_logger() -> logging.Logger:
    """A logger without output: an invalid request gets an error response, and no traceback is printed here."""
    quiet = logging.getLogger("proctor.view")
    quiet.setLevel(logging.CRITICAL + 1)
    return quiet


def _listen(host: str, port: int, *, strict: bool) -> socket.socket:
    for number in (port,) if strict else (port, 0):
        listening = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listening.bind((host, number))
        except OSError as error:
            listening.close()
            reason = error.strerror
        else:
            return listening
    raise InfrastructureError(
        f"cannot listen on port {port} of {host}: {reason}", fix="choose another with --port or --host"
    )
