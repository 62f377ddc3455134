"""A real Chromium, driven over the WebDriver protocol, which is JSON over HTTP: no library is needed for it."""

from __future__ import annotations

import base64
import os
import shutil
import subprocess
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any, TypeVar

import anyio.to_thread
import httpx2
import pytest

from tests.answering import free_port
from tests.web.pages import Pages

_ARGUMENTS = ("--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--disable-dev-shm-usage")
_ELEMENT = "element-6066-11e4-a52e-4f735466cecf"
T = TypeVar("T")
ENTER, TAB, SPACE, UP, DOWN = "\ue007", "\ue004", " ", "\ue013", "\ue015"


def need_chromium() -> None:
    """Skip the tests where no Chromium can be driven; fail them where CI says that one has to be there."""
    if reason := why_not():
        if os.environ.get("CODEMODE_NEEDS_CHROMIUM"):
            pytest.fail(reason)
        pytest.skip(reason)


def why_not() -> str:
    """Why no Chromium can be driven here; empty if one can."""
    missing = [name for name in ("chromium", "chromedriver") if shutil.which(name) is None]
    return (
        f"{' and '.join(missing)} not installed; python -m scripts.debian_tools installs it on Debian"
        if missing
        else ""
    )


class Chromium:
    """One browser with one window. Its methods block."""

    def __init__(self, client: httpx2.Client, session: str) -> None:
        self._client = client
        self._session = f"/session/{session}"

    def open(self, address: str) -> None:
        self._do("POST", "url", url=address)

    @property
    def address(self) -> str:
        return str(self._do("GET", "url"))

    @property
    def source(self) -> str:
        return str(self._do("GET", "source"))

    def run(self, script: str, *arguments: Any) -> Any:
        """The value of a script, which the page's own policy does not forbid."""
        return self._do("POST", "execute/sync", script=script, args=list(arguments))

    def run_async(self, script: str, *arguments: Any) -> Any:
        """What a script passes to its last argument."""
        return self._do("POST", "execute/async", script=script, args=list(arguments))

    def text(self, selector: str = "body") -> str:
        """The visible text; in one step, since live parts are replaced."""
        return str(self.run("return document.querySelector(arguments[0])?.innerText ?? ''", selector))

    def click(self, selector: str) -> None:
        self._do("POST", f"element/{self._element(selector)}/click")

    def point(self, selector: str) -> None:
        """Move the pointer onto an element."""
        move = {"type": "pointerMove", "duration": 0, "x": 0, "y": 0, "origin": {_ELEMENT: self._element(selector)}}
        self._do("POST", "actions", actions=[{"type": "pointer", "id": "mouse", "actions": [move]}])

    def type(self, text: str) -> None:
        """Press keys, whatever has the focus."""
        keys = [it for key in text for it in ({"type": "keyDown", "value": key}, {"type": "keyUp", "value": key})]
        self._do("POST", "actions", actions=[{"type": "key", "id": "keyboard", "actions": keys}])

    def until(self, selector: str, text: str, seconds: float = 20) -> None:
        """Wait until a text is there."""
        until = time.monotonic() + seconds
        while text not in self.text(selector):
            assert time.monotonic() < until, f"{text!r} is not in {self.text(selector)!r}"
            time.sleep(0.05)

    def resize(self, width: int, height: int) -> None:
        """Give the page that is open this size. Returns when it has it."""
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
        self.devtools("Emulation.setDeviceMetricsOverride", **metrics)
        until = time.monotonic() + 60
        while (there := self.run("return innerWidth")) != width:
            assert time.monotonic() < until, f"the page is {there} pixels wide, not {width}"
            time.sleep(0.05)

    def use_theme(self, theme: str) -> None:
        """`light` or `dark`."""
        self.devtools("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": theme}])

    def picture(self, height: int | None = None) -> bytes:
        """The page as WebP: as wide as the window, and whole, or its upper part of this height."""
        width, whole = self.run("return [innerWidth, document.documentElement.scrollHeight]")
        clip = {"x": 0, "y": 0, "width": width, "height": min(height or whole, whole), "scale": 1}
        options = {"format": "webp", "quality": 50, "captureBeyondViewport": True, "clip": clip}
        return base64.b64decode(self.devtools("Page.captureScreenshot", **options)["data"])

    def devtools(self, command: str, **parameters: Any) -> Any:
        return self._do("POST", "goog/cdp/execute", cmd=command, params=parameters)

    def console(self) -> list[str]:
        """What the console says since it was last read: violations of the page's policy, errors of scripts."""
        return [str(entry["message"]) for entry in self._do("POST", "se/log", type="browser")]

    def _element(self, selector: str) -> str:
        found: dict[str, str] = self._do("POST", "element", using="css selector", value=selector)
        return found[_ELEMENT]

    def _do(self, method: str, path: str, **body: Any) -> Any:
        answer = self._client.request(method, f"{self._session}/{path}", json=body if method == "POST" else None)
        value = answer.json()["value"]
        assert answer.status_code == 200, value
        return value


async def do(step: Callable[..., T], *arguments: Any) -> T:
    """Drive the browser in a thread, while the pages are served here."""
    return await anyio.to_thread.run_sync(step, *arguments)


@asynccontextmanager
async def browsing() -> AsyncIterator[Chromium]:
    """`chromium` for tests that await."""
    browser = chromium()
    try:
        yield await do(browser.__enter__)
    finally:
        await do(browser.__exit__, None, None, None)


@asynccontextmanager
async def entered(site: Pages) -> AsyncIterator[Chromium]:
    """A browser that has entered the pages as a person does; `site.base` is their address then."""
    async with browsing() as browser:
        await do(browser.open, site.entrance)
        await do(browser.until, "h1", "Executions")
        site.base = (await do(lambda: browser.address)).rpartition("/executions")[0]
        yield browser


@contextmanager
def chromium() -> Iterator[Chromium]:
    """A browser with a new profile, until this is left."""
    port = free_port()
    # A driver of the system reads the variables of a snap or a desktop; none is needed.
    environment = {name: os.environ[name] for name in ("PATH", "HOME", "TMPDIR") if name in os.environ}
    driver = subprocess.Popen(
        ["chromedriver", f"--port={port}"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment
    )
    try:
        with httpx2.Client(base_url=f"http://127.0.0.1:{port}", timeout=60) as client:
            _wait_until_ready(client)
            options = {"binary": shutil.which("chromium"), "args": list(_ARGUMENTS)}
            wanted = {"goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL"}}
            answer = client.post("/session", json={"capabilities": {"alwaysMatch": wanted}}).json()["value"]
            session = answer["sessionId"]
            try:
                yield Chromium(client, session)
            finally:
                client.delete(f"/session/{session}")
    finally:
        driver.terminate()
        driver.wait(60)


def _wait_until_ready(client: httpx2.Client) -> None:
    until = time.monotonic() + 60
    while True:
        try:
            client.get("/status")
        except httpx2.ConnectError:
            assert time.monotonic() < until, "chromedriver does not start"
            time.sleep(0.05)
        else:
            return
