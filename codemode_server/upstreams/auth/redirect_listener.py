"""Takes the redirect of a browser on this machine (RFC 8252), or the address that the person pastes.

Only a request for the path of the redirect with the `state` of this sign-in ends the wait: other pages in the same
browser can reach the port, and must neither end the sign-in nor put their code into it.
"""

from __future__ import annotations

import html
import secrets
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from urllib.parse import parse_qs, urlsplit

import anyio
from anyio.abc import Listener, SocketAttribute, SocketStream

_MAX_HEAD_BYTES = 16 * 2**10
_HEAD_S = 10.0
_PAGE = (
    "<!doctype html><meta charset=utf-8><title>codemode-server</title>"
    "<body style='font-family:sans-serif;max-width:40em;margin:4em auto'><h1>{title}</h1><p>{text}</p>"
)


@dataclass(frozen=True, slots=True)
class Redirect:
    """The answer of an authorization server, as the browser brought it."""

    state: str
    code: str = field(default="", repr=False)
    iss: str | None = None
    error: str = ""


class RedirectListener:
    """Waits for one redirect. Made by `listening`."""

    def __init__(self, address: str) -> None:
        self.address = address
        """The `redirect_uri`."""
        self._path = urlsplit(address).path or "/"
        self._state = ""
        self._found: Redirect | None = None
        self._change = anyio.Event()

    def expect(self, state: str) -> None:
        """From now on, take the redirect with this state."""
        self._state = state

    @property
    def has_redirect(self) -> bool:
        return self._found is not None

    async def wait(self) -> Redirect:
        """The redirect, once it has come."""
        while self._found is None:
            await self._change.wait()
        return self._found

    def take(self, address: str) -> str:
        """Take the redirect if this address is the one that is waited for; else says what is wrong with it."""
        try:
            parts = urlsplit(address.strip())
            given = parse_qs(parts.query, keep_blank_values=True)
        except ValueError:
            return "this is not an address"
        if parts.path != self._path:
            return "this is not the address of the redirect"
        if any(len(values) > 1 for values in given.values()):
            return "the address has a parameter twice"
        one = {name: values[0] for name, values in given.items()}
        if not self._state or not secrets.compare_digest(one.get("state", "").encode(), self._state.encode()):
            return "the address does not belong to this sign-in: its `state` is another"
        if not one.get("code") and not one.get("error"):
            return "the address has neither a code nor an error"
        if self._found is None:
            self._found = Redirect(one["state"], one.get("code", ""), one.get("iss"), one.get("error", ""))
            self._change.set()
        return ""

    async def _serve(self, stream: SocketStream) -> None:
        async with stream:
            with suppress(anyio.BrokenResourceError, anyio.EndOfStream, TimeoutError):
                with anyio.fail_after(_HEAD_S):
                    head = await _head(stream)
                    await stream.send(self._answer(head))

    def _answer(self, head: bytes) -> bytes:
        method, _, rest = head.partition(b"\r\n")[0].decode("latin-1").partition(" ")
        target = rest.rpartition(" ")[0]
        if method != "GET" or urlsplit(target).path != self._path:
            return _response("404 Not Found", "Nothing here", "This is no page of codemode-server.")
        if wrong := self.take(target):
            return _response("400 Bad Request", "Not signed in", f"Refused: {wrong}.")
        if self._found is not None and self._found.error:
            return _response("200 OK", "Not signed in", "The sign-in was refused.")
        return _response("200 OK", "Almost done", "You can close this page, and go on where you began.")


@asynccontextmanager
async def listening(address: str | None) -> AsyncGenerator[RedirectListener]:
    """A listener on this address, whose port may be 0 for any; without an address, on a random port and path. Raises
    `OSError`: the port is in use."""
    parts = urlsplit(address or f"http://127.0.0.1:0/callback/{secrets.token_urlsafe(16)}")
    failure: Exception | None = None
    async with AsyncExitStack() as opened:
        listeners = await _listeners(parts.hostname or "", parts.port or 0)
        for listener in listeners:
            await opened.enter_async_context(listener)
        if not parts.port:
            port = listeners[0].extra(SocketAttribute.local_port)  # noqa: S610 - not Django's
            parts = parts._replace(netloc=f"127.0.0.1:{port}")
        made = RedirectListener(parts.geturl())
        async with anyio.create_task_group() as tasks:
            for listener in listeners:
                tasks.start_soon(listener.serve, made._serve)
            try:
                yield made
            except Exception as error:  # noqa: BLE001 - the task group would wrap it
                failure = error
            tasks.cancel_scope.cancel()
    if failure is not None:
        raise failure


async def _listeners(host: str, port: int) -> list[Listener[SocketStream]]:
    """For `localhost`, a browser may take either address; not every machine has the second."""
    found = [await anyio.create_tcp_listener(local_host="127.0.0.1" if host == "localhost" else host, local_port=port)]
    if host == "localhost":
        with suppress(OSError):
            found.append(await anyio.create_tcp_listener(local_host="::1", local_port=port))
    return [listener for multi in found for listener in multi.listeners]


async def _head(stream: SocketStream) -> bytes:
    head = b""
    while b"\r\n\r\n" not in head and len(head) < _MAX_HEAD_BYTES:
        head += await stream.receive()
    return head


def _response(status: str, title: str, text: str) -> bytes:
    body = _PAGE.format(title=html.escape(title), text=html.escape(text)).encode()
    head = (
        f"HTTP/1.1 {status}\r\nContent-Type: text/html; charset=utf-8\r\nContent-Length: {len(body)}\r\n"
        "Cache-Control: no-store\r\nReferrer-Policy: no-referrer\r\nContent-Security-Policy: default-src 'none'; "
        "style-src 'unsafe-inline'\r\nConnection: close\r\n\r\n"
    )
    return head.encode() + body
