"""A registry of container images on loopback, from which a real engine pulls."""

import asyncio
import gzip
import hashlib
import io
import json
import os
import tarfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

from aiohttp import web

MANIFEST = "application/vnd.docker.distribution.manifest.v2+json"
_SHELL = ("/bin/dash", "/lib64/ld-linux-x86-64.so.2", "/lib/x86_64-linux-gnu/libc.so.6")


def layer(files: dict[str, bytes]) -> bytes:
    """A layer with these files in it, all of them programs."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(content), 0o755
            archive.addfile(entry, io.BytesIO(content))
    return packed.getvalue()


def shell_layer() -> bytes:
    """A layer with the machine's own shell, and what that needs."""
    return layer({("bin/sh" if path == _SHELL[0] else path.lstrip("/")): Path(path).read_bytes() for path in _SHELL})


def random_layer(size: int) -> bytes:
    """A layer with a file of so many bytes that no other has."""
    return layer({"file": os.urandom(size)})


class Registry:
    """Serves images; `delay` seconds pass before each one's own, last layer."""

    def __init__(self, *, delay: float = 0.0) -> None:
        self.delay = delay
        self.pulled: list[str] = []
        self._content: dict[str, tuple[str, bytes]] = {"/v2/": ("application/json", b"{}")}
        self._slow: dict[str, str] = {}
        self._runner: web.AppRunner | None = None

    async def __aenter__(self) -> Self:
        application = web.Application()
        application.router.add_route("*", "/{path:.*}", self._serve)
        self._runner = web.AppRunner(application, shutdown_timeout=0.1, handler_cancellation=True)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        return self

    async def __aexit__(self, *_exception: object) -> None:
        if self._runner is not None:
            await self._runner.cleanup()

    def add(self, name: str, layers: Sequence[bytes]) -> str:
        """Serve an image; the name to pull it by."""
        assert self._runner is not None
        config = {
            "architecture": "amd64",
            "os": "linux",
            "config": {},
            "rootfs": {"type": "layers", "diff_ids": [_digest(one) for one in layers]},
            "history": [{"created": "2020-01-01T00:00:00Z"} for _ in layers],
        }
        blobs = [gzip.compress(one, 1, mtime=0) for one in layers]
        described = self._blob(name, json.dumps(config).encode())
        manifest = {
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "config": {"mediaType": "application/vnd.docker.container.image.v1+json", **described},
            "layers": [
                {"mediaType": "application/vnd.docker.image.rootfs.diff.tar.gzip", **self._blob(name, blob)}
                for blob in blobs
            ],
        }
        body = json.dumps(manifest).encode()
        for reference in ("latest", _digest(body)):
            self._content[f"/v2/{name}/manifests/{reference}"] = (MANIFEST, body)
        self._slow[f"/v2/{name}/blobs/{_digest(blobs[-1])}"] = name
        return f"127.0.0.1:{self._runner.addresses[0][1]}/{name}:latest"

    def _blob(self, name: str, content: bytes) -> dict[str, Any]:
        self._content[f"/v2/{name}/blobs/{_digest(content)}"] = ("application/octet-stream", content)
        return {"size": len(content), "digest": _digest(content)}

    async def _serve(self, request: web.Request) -> web.Response:
        if request.path not in self._content:
            return web.Response(status=404)
        if request.path in self._slow and request.method == "GET":
            self.pulled.append(self._slow[request.path])
            await asyncio.sleep(self.delay)
        kind, body = self._content[request.path]
        return web.Response(body=body, content_type=kind, headers={"Docker-Content-Digest": _digest(body)})


def _digest(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"
