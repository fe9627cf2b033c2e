"""The viewer as files that any web server can serve: every page rendered once, links between them relative.

Pages are found by following links from the list of runs. What only a server can do (search, sorting, raw files) is left
out. Keys that this machine knows are masked, should one be in a result.
"""

import hashlib
import html
import importlib.resources
import os
import posixpath
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qsl, unquote, urlencode, urlsplit

from proctor.core.errors import UsageError
from proctor.gateway.redact import KEY_PATTERN
from proctor.report.run_index import RunIndex
from proctor.report.viewer import pages
from proctor.report.viewer.compare import compare_page
from proctor.report.viewer.server import STATIC, templates

_LINK: Final = re.compile(r'\b(href|src|action|data-up|data-events)="([^"]*)"')
_TAG: Final = re.compile(r"<[^<>]*>")
_TAGS: Final = f"(?:{_TAG.pattern})*"
_REPEATED: Final = re.compile(r"(\[[^]]+\])(\{\d+,?\})")
# Whatever looks like a provider's key, of a run that was made elsewhere; as with known ones, with tags between letters.
_ANY_KEY: Final = re.compile(
    _REPEATED.sub(lambda found: f"(?:{_TAGS}{found[1]}){found[2]}", KEY_PATTERN.pattern.decode())
)
_SECRET_NAME: Final = re.compile(r"(?:KEY|TOKEN|SECRET|PASSWORD)$")
_MIN_SECRET: Final = 8
_RUN: Final = re.compile(r"/run/([^/]+)/([^/]+)(/task)?")
# What of a query says which page it is; the rest is how a server would have changed it.
_KEPT: Final = {"": ("page",), "/task": ("task", "trial", "attempt", "lane", "page"), "/compare": ("sweep", "run")}


def write_bundle(index: RunIndex, target: Path, log: Callable[[str], None] = lambda _: None) -> int:
    """Write all pages below a folder; how many.

    Raises:
        UsageError: the folder is not empty.
    """
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise UsageError("it is there already, and is not empty", where=target, fix="choose another folder")
    try:
        target.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        what = f"no folder can be made here: {error.strerror}"
        raise UsageError(what, where=target, fix="choose another one") from error
    writer = _BundleWriter(index, target)
    writer.write_all(log)
    return len(writer.written)


class _BundleWriter:
    """Renders pages until every link leads to one that is written."""

    def __init__(self, index: RunIndex, target: Path) -> None:
        self._index = index
        self._target = target
        self._templates = templates(static=True)
        self._secrets = _known_secrets(os.environ)
        self._waiting: dict[str, None] = {"/": None}
        self.written: set[str] = set()

    def write_all(self, log: Callable[[str], None]) -> None:
        for name in STATIC:
            data = (importlib.resources.files("proctor.report.viewer") / "static" / name).read_bytes()
            self._write(f"static/{name}", data)
        while self._waiting:
            address = next(iter(self._waiting))
            del self._waiting[address]
            file = page_file(address)
            if file is None or file in self.written:
                continue
            self.written.add(file)
            try:
                text = self._render(address)
            except UsageError as error:
                text = self._templates.get_template("error.html").render(sentence=error.sentence, status=404)
                log(f"{address}: {error}")
            self._write(file, self._linked(text, file).encode("utf-8", "replace"))

    def _write(self, file: str, data: bytes) -> None:
        path = self._target / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)

    def _render(self, address: str) -> str:
        parts = urlsplit(address)
        pairs = parse_qsl(parts.query)
        params = dict(pairs)
        run = _RUN.fullmatch(parts.path)
        context: Mapping[str, Any]
        if parts.path == "/":
            template, context = "runs.html", pages.runs_page(self._index, params)
        elif parts.path == "/compare":
            runs = [value for name, value in pairs if name == "run"]
            template, context = "compare.html", compare_page(self._index, params, runs)
        elif run is not None:
            name = f"{unquote(run[1])}/{unquote(run[2])}"
            template = "task.html" if run[3] else "run.html"
            context = (pages.task_page if run[3] else pages.run_page)(self._index, name, params)
        else:
            raise UsageError(f"there is no page {address}")
        return self._templates.get_template(template).render(context)

    def _linked(self, text: str, file: str) -> str:
        """The page with relative links to other pages; those to what is not written lead nowhere."""
        for secret in (*self._secrets, _ANY_KEY):
            text = secret.sub(lambda found: "[masked]" + "".join(_TAG.findall(found[0])), text)

        def relative(found: re.Match[str]) -> str:
            attribute, address = found[1], html.unescape(found[2])
            if not address.startswith("/"):
                return found[0]
            path, hashed, anchor = address.partition("#")
            target = path.removeprefix("/") if path.startswith("/static/") else page_file(path)
            if attribute in {"action", "data-events"} or target is None:
                return f'{attribute}=""' if attribute != "href" else 'href="#"'
            if not path.startswith("/static/"):
                self._waiting[path] = None
            link = posixpath.relpath(target, posixpath.dirname(file) or ".")
            return f'{attribute}="{html.escape(link)}{hashed}{html.escape(anchor)}"'

        return _LINK.sub(relative, text)


def page_file(address: str) -> str | None:
    """The file of a page, by its address; None for what is not part of a bundle."""
    parts = urlsplit(address)
    run = _RUN.fullmatch(parts.path)
    if parts.path == "/":
        return "index.html"
    if run is None and parts.path != "/compare":
        return None
    kind = "/compare" if run is None else run[3] or ""
    query = [(name, value) for name, value in parse_qsl(parts.query) if name in _KEPT[kind]]
    if query in ([], [("page", "1")]):
        name = "index"
    else:
        name = f"{kind[1:] or 'page'}-{hashlib.sha256(urlencode(query).encode()).hexdigest()[:16]}"
    folder = "compare" if run is None else posixpath.join("run", *map(_safe, (run[1], run[2])))
    return f"{folder}/{name}.html"


def _safe(part: str) -> str:
    """A part of an address as a name of a folder."""
    plain = re.sub(r"[^A-Za-z0-9._-]", "_", unquote(part)).lstrip(".")
    return plain if plain == part else f"{plain}-{hashlib.sha256(part.encode()).hexdigest()[:8]}"


def _known_secrets(environ: Mapping[str, str]) -> list[re.Pattern[str]]:
    """Keys in the environment, as a page may have them: escaped, and with the colours of code between their letters."""
    values = {value for name, value in environ.items() if _SECRET_NAME.search(name) and len(value) >= _MIN_SECRET}
    return [re.compile(_TAGS.join(re.escape(html.escape(letter)) for letter in value)) for value in sorted(values)]
