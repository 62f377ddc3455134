"""An upstream behind an address: streamable HTTP, and the older HTTP+SSE.

mcp's transports follow a redirect only within the endpoint's origin, and here httpx follows none, so a header meant for
one server, `Authorization` above all, never reaches another. A message stays a POST wherever it is redirected to.
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import urlsplit

import anyio
from pydantic import Field, field_validator

from codemode_server.domain.errors import SecretUnavailable
from codemode_server.secrets.commands import words_of
from codemode_server.support.setting_types import HEADER_NAME, ProblemWithin, Section, checked_address
from codemode_server.upstreams.auth.oauth_settings import OAuthSettings
from codemode_server.upstreams.messages import UNREADABLE
from codemode_server.upstreams.transports.registry import NOT_SENT, Transport, TransportSpec, refusals

if TYPE_CHECKING:
    import httpx2

    from codemode_server.support.redaction import Redactor
    from codemode_server.upstreams.bounded_http import Bounds
    from codemode_server.upstreams.connection_deps import ConnectionDeps
    from codemode_server.upstreams.session import Channel

CONNECT_S = 10.0
_BODY_S, _JSON_BODY_S = 2.0, 10.0
"""For the body of an HTTP error; mcp reads JSON, too, which fails if it was not read to its end before."""
_MAX_REDIRECTS = 20
_IDLE_S = 24 * 3600.0
"""An open stream may be silent as long as it likes: each call has its own timeout."""

_DESCRIPTION = re.compile(r'\berror_description="([^"]*)"')
_UNEXPANDED = re.compile(r"\$\{")  # only a disabled server keeps a variable that is not set


class HttpSettings(Section):
    """The settings of a server behind an address."""

    url: str | None = Field(default=None, repr=False)
    """Address of a server that runs already."""
    transport: Literal["http", "sse"] = "http"
    """With `url`: `http` is streamable HTTP, `sse` the older HTTP+SSE."""
    headers: dict[str, str] = Field(default={}, repr=False)
    """With `url`: HTTP headers sent with each request, for instance `Authorization`."""
    headers_command: str | None = Field(default=None, repr=False, min_length=1, max_length=10_000)
    """With `url`: a command that prints a JSON object of HTTP headers, for instance with a token that soon expires. It
    runs without a shell for each new connection, and once more when the server answers 401."""
    oauth: OAuthSettings | None = None
    """With `url`: how to sign in with `codemode-server login`; most servers need no settings for it."""

    @field_validator("headers")
    @classmethod
    def _headers_can_be_sent(cls, headers: dict[str, str]) -> dict[str, str]:
        for name, value in headers.items():
            if not HEADER_NAME.fullmatch(name):
                raise ProblemWithin("is not the name of an HTTP header", name)
            if any(character in value for character in "\r\n\0"):
                raise ProblemWithin("holds a line break, which an HTTP header can't", name)
        return headers

    @field_validator("headers_command")
    @classmethod
    def _command_can_be_split(cls, command: str | None) -> str | None:
        if command is not None:
            try:
                words_of(command)
            except SecretUnavailable as error:
                raise ValueError(str(error)) from None
        return command

    @field_validator("url")
    @classmethod
    def _url_is_an_address(cls, url: str | None) -> str | None:
        return url if url is None or _UNEXPANDED.search(url) else checked_address(url)


class HttpTransport(Transport):
    """One connection to one address."""

    def __init__(self, settings: HttpSettings, deps: ConnectionDeps) -> None:
        self._settings = settings
        self._url = settings.url or ""
        self._deps = deps

    @asynccontextmanager
    async def open(self) -> AsyncGenerator[Channel]:
        """Yield the channel of a session. Raises `SecretUnavailable`: the command for the headers failed;
        `ExceptionGroup`: of httpx2's errors, at any time until it is left."""
        from codemode_server.upstreams.bounded_http import BoundedChannel, Bounds

        auth: httpx2.Auth | None = None
        if self._deps.command_headers is not None:
            from codemode_server.upstreams.auth.bearer import HeadersAuth

            await self._deps.command_headers.renew()
            auth = HeadersAuth(self._url, self._deps.command_headers)
        elif self._deps.tokens is not None:
            from codemode_server.upstreams.auth.bearer import BearerAuth

            auth = BearerAuth(self._url, self._deps.tokens)
        bounds = Bounds(self._deps.message_bytes, answers_in_posts=self._settings.transport == "http")
        if self._settings.transport == "sse":
            from mcp.client.sse import sse_client

            async with sse_client(
                self._url,
                headers=self._settings.headers,
                timeout=CONNECT_S,
                sse_read_timeout=_IDLE_S,
                httpx_client_factory=partial(_client, bounds, self._deps.redactor),
                auth=auth,
            ) as streams:
                yield BoundedChannel(streams, bounds)
        else:
            import httpx2
            from mcp.client.streamable_http import streamable_http_client

            timeout = httpx2.Timeout(CONNECT_S, write=60.0, read=None, pool=None)
            async with (
                _client(bounds, self._deps.redactor, self._settings.headers, timeout, auth) as client,
                streamable_http_client(self._url, http_client=client) as streams,
            ):
                yield BoundedChannel(streams, bounds)

    def why_not_connected(self, cause: BaseException, refused: list[str]) -> str | None:
        """Explains an error of httpx2 or mcp; `refused` are the statuses that the server answered with."""
        if isinstance(cause, SecretUnavailable):
            return f"{cause} (headers_command in upstream.yaml)"
        if str(cause).startswith(UNREADABLE):
            return f"{origin(self._url)} answered with something that is not a valid JSON-RPC message"
        if refused and refused[-1].startswith("401") and self._deps.tokens is not None and self._deps.tokens.problem:
            return f"{origin(self._url)} refuses: {self._deps.tokens.problem}"
        if refused and refused[-1].startswith(NOT_SENT):
            return f"{origin(self._url)} {refused[-1]}"
        if refused and (hasattr(cause, "code") or hasattr(cause, "response")):
            return f"{origin(self._url)} answered with HTTP {refused[-1]}{self._advice(refused[-1])}"
        if not hasattr(cause, "code"):
            return f"{origin(self._url)} can't be reached: {str(cause) or type(cause).__name__}"
        return None

    def _advice(self, status: str) -> str:
        if not status.startswith(("401", "403")):
            return ""
        if self._deps.command_headers is not None:
            return ": it refuses the headers that headers_command in its entry in upstream.yaml prints"
        if any(name.lower() == "authorization" for name in self._settings.headers):
            return ": it refuses the Authorization header of its entry in upstream.yaml"
        return ": it needs a token, as an Authorization header in its entry in upstream.yaml"


def origin(url: str) -> str:
    """The address as it may be shown: without user, query and fragment, which can hold secrets."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.hostname or ''}{f':{parts.port}' if parts.port else ''}{parts.path}"


def _client(
    bounds: Bounds,
    redactor: Callable[[], Redactor],
    headers: dict[str, str] | None = None,
    timeout: httpx2.Timeout | None = None,
    auth: httpx2.Auth | None = None,
) -> httpx2.AsyncClient:
    import httpx2

    class Client(httpx2.AsyncClient):
        async def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
            try:
                return await super().send(request, **options)
            except (httpx2.ConnectError, httpx2.ConnectTimeout) as error:
                if (refused := refusals.get()) is not None:
                    refused.append(f"{NOT_SENT}{error or type(error).__name__}")
                raise

    return Client(
        headers=headers,
        timeout=timeout,
        auth=auth,
        follow_redirects=False,
        max_redirects=_MAX_REDIRECTS,
        limits=httpx2.Limits(max_connections=None, max_keepalive_connections=20),
        event_hooks={"response": [_keep_method, _note_circle, bounds.bound, partial(_note_refusal, redactor)]},
    )


async def _keep_method(response: httpx2.Response) -> None:
    """Browsers make a GET of a POST that is redirected by 301 or 302; a message would be lost."""
    if response.status_code in (301, 302) and response.request.method == "POST":
        response.status_code = 308


async def _note_circle(response: httpx2.Response) -> None:
    """The client only says that there were too many redirects, not where."""
    request = response.request
    if response.has_redirect_location:
        count = request.extensions["redirects"] = request.extensions.get("redirects", 0) + 1
        if count > _MAX_REDIRECTS and (refused := refusals.get()) is not None:
            refused.append(f"{NOT_SENT}it redirects in a circle to {origin(str(request.url))}")


async def _note_refusal(redactor: Callable[[], Redactor], response: httpx2.Response) -> None:
    refused = refusals.get()
    if refused is None or response.status_code < 400:
        return
    import httpx2

    from codemode_server.upstreams.failures import reason_in

    said = ""
    is_json = response.headers.get("content-type", "").startswith("application/json")
    with anyio.move_on_after(_JSON_BODY_S if is_json else _BODY_S), suppress(httpx2.HTTPError, httpx2.StreamError):
        said = reason_in(await response.aread(), redactor())
    described = _DESCRIPTION.search(response.headers.get("www-authenticate", ""))
    said = said or redactor().line(described[1] if described else "", 200)
    after = redactor().line(response.headers.get("retry-after", ""), 40)
    parts = [f"{response.status_code} {response.reason_phrase}".strip(), said, f"Retry-After: {after}" if after else ""]
    refused.append(": ".join(filter(None, parts)))


TRANSPORT = TransportSpec(
    selector="url",
    meaning="a server that runs already",
    settings_model=HttpSettings,
    connect=HttpTransport,
    identity=lambda it: [None, [], None, it.url, it.transport, [], sorted(it.headers)],
)
