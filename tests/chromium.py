"""A real Chromium, driven through its own DevTools protocol: one browser, pages with everything that they asked for."""

import asyncio
import base64
import contextlib
import itertools
import json
import os
import shutil
import signal
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp

from waiting import PATIENCE

FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--hide-scrollbars"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-extensions"),
    *("--no-default-browser-check", "--disable-dev-shm-usage", "--mute-audio", "--remote-debugging-port=0"),
)


def program() -> str | None:
    """Where Chromium is on this machine."""
    return shutil.which("chromium") or shutil.which("chromium-browser")


class Page:
    """One tab. Keeps every address that was asked for, every error, and every dialog."""

    def __init__(self, browser: "Chromium", session: str, target: str) -> None:
        self._browser = browser
        self._session = session
        self._target = target
        self.asked: list[str] = []
        self.troubles: list[str] = []
        self.dialogs: list[str] = []
        self._loaded = asyncio.Event()

    def hear(self, method: str, told: dict[str, Any]) -> None:
        match method:
            case "Network.requestWillBeSent":
                self.asked.append(told["request"]["url"])
            case "Page.loadEventFired":
                self._loaded.set()
            case "Runtime.exceptionThrown":
                self.troubles.append(str(told["exceptionDetails"]))
            case "Log.entryAdded":
                self.troubles.append(f"{told['entry']['source']}: {told['entry']['text']}")
            case "Page.javascriptDialogOpening":
                self.dialogs.append(told["message"])

    async def call(self, method: str, **params: Any) -> dict[str, Any]:
        return await self._browser.call(method, params, session=self._session)

    async def go(self, address: str) -> None:
        """Open an address, and wait until it is loaded."""
        self._loaded.clear()
        gone = await self.call("Page.navigate", url=address)
        if "loaderId" in gone:  # otherwise it is another place of the same page
            await asyncio.wait_for(self._loaded.wait(), PATIENCE)

    async def value(self, expression: str) -> Any:
        """What an expression in the page is worth."""
        done = await self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in done:
            raise AssertionError(done["exceptionDetails"])
        return done["result"].get("value")

    async def until(self, expression: str, seconds: float = PATIENCE) -> None:
        """Wait until an expression in the page holds."""
        async with asyncio.timeout(seconds):
            while True:
                # A page that is being left has no answer.
                with contextlib.suppress(AssertionError):
                    if await self.value(f"!!({expression})"):
                        return
                await asyncio.sleep(0.05)

    async def arrived(self, expression: str) -> None:
        """Wait until a page is there, whole, in which an expression holds."""
        await self.until(f"document.readyState === 'complete' && ({expression})")

    async def press(self, *keys: str) -> None:
        """Press keys, one after the other."""
        for key in keys:
            text = {"text": key} if len(key) == 1 else {"text": "\r"} if key == "Enter" else {}
            await self.call("Input.dispatchKeyEvent", type="keyDown", key=key, **text)
            await self.call("Input.dispatchKeyEvent", type="keyUp", key=key)

    async def looks(self, *, width: int = 1280, height: int = 800, dark: bool = False, scale: float = 1) -> None:
        """The size of the window, and what its user prefers."""
        await self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=scale,
            mobile=width < 600,
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        still = {"name": "prefers-reduced-motion", "value": "reduce"}
        await self.call("Emulation.setEmulatedMedia", features=[scheme, still])

    async def close(self) -> None:
        """Close the tab."""
        await self._browser.call("Target.closeTarget", {"targetId": self._target})

    async def picture(self, file: Path) -> None:
        """Keep what can be seen, as PNG or, a quarter of it, as WebP."""
        form = file.suffix.removeprefix(".")
        quality = {} if form == "png" else {"quality": 80}
        shot = await self.call("Page.captureScreenshot", format=form, **quality)
        file.write_bytes(base64.b64decode(shot["data"]))


class Chromium:
    """The browser."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket = socket
        self._numbers = itertools.count(1)
        self._waiting: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._pages: dict[str, Page] = {}

    async def listen(self) -> None:
        async for message in self._socket:
            told = json.loads(message.data)
            if "id" in told:
                waiting = self._waiting.pop(told["id"])
                if not waiting.done():
                    waiting.set_result(told)
            elif page := self._pages.get(told.get("sessionId", "")):
                page.hear(told["method"], told["params"])

    async def call(self, method: str, params: dict[str, Any], *, session: str | None = None) -> dict[str, Any]:
        number = next(self._numbers)
        self._waiting[number] = asyncio.get_running_loop().create_future()
        message = {"id": number, "method": method, "params": params}
        await self._socket.send_json(message if session is None else {**message, "sessionId": session})
        done = await asyncio.wait_for(self._waiting[number], PATIENCE)
        if "error" in done:
            raise AssertionError(f"{method}: {done['error']}")
        result: dict[str, Any] = done["result"]
        return result

    async def page(self) -> Page:
        """A new tab."""
        target = await self.call("Target.createTarget", {"url": "about:blank"})
        attached = await self.call("Target.attachToTarget", {"targetId": target["targetId"], "flatten": True})
        page = self._pages[attached["sessionId"]] = Page(self, attached["sessionId"], target["targetId"])
        for domain in ("Page", "Network", "Runtime", "Log"):
            await page.call(f"{domain}.enable")
        return page


@asynccontextmanager
async def chromium() -> AsyncIterator[Chromium]:
    """Start a browser that knows nothing and nobody, and end it."""
    found = program()
    if found is None:
        raise AssertionError("there is no chromium")
    with tempfile.TemporaryDirectory(prefix="chromium-", ignore_cleanup_errors=True) as folder:
        environment = {"HOME": folder, "PATH": os.environ.get("PATH", os.defpath), "TMPDIR": folder}
        process = await asyncio.create_subprocess_exec(
            *(found, *FLAGS, f"--user-data-dir={folder}/data", "about:blank"),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
            env=environment,
            start_new_session=True,
        )
        try:
            port = Path(folder, "data", "DevToolsActivePort")
            async with asyncio.timeout(PATIENCE):
                while not port.exists() or len(port.read_text().splitlines()) < 2:
                    await asyncio.sleep(0.05)
            number, path = port.read_text().splitlines()
            async with (
                aiohttp.ClientSession() as http,
                http.ws_connect(f"ws://127.0.0.1:{number}{path}", max_msg_size=0) as socket,
            ):
                browser = Chromium(socket)
                listening = asyncio.create_task(browser.listen())
                try:
                    yield browser
                finally:
                    listening.cancel()
                    await asyncio.wait({listening})
        finally:
            os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
