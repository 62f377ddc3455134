"""Adds the token of a sign-in, or the headers that a command printed, to requests, and tries once more with new ones
where the server refuses them."""

from __future__ import annotations

import re
import shlex
from collections.abc import AsyncGenerator

import httpx2

from codemode_server.upstreams.auth.command_headers import CommandHeaders
from codemode_server.upstreams.auth.oauth_settings import is_scope
from codemode_server.upstreams.auth.tokens import ServerTokens, SignIn, origin_of
from codemode_server.upstreams.transports.registry import refusals

_MAX_SCOPES = 10


class BearerAuth(httpx2.Auth):
    """The authentication of one server's client."""

    def __init__(self, url: str, tokens: ServerTokens) -> None:
        self._origin = origin_of(url)
        self._tokens = tokens

    async def async_auth_flow(self, request: httpx2.Request) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        if origin_of(str(request.url)) != self._origin:
            yield request
            return
        sent = await self._tokens.current()
        _put(request, sent)
        response = yield request
        if response.status_code < 400:
            self._tokens.note_accepted()
        scopes = _missing_scopes(response)
        other = await self._tokens.after_refusal(sent) if response.status_code == 401 else None
        if other is not None:
            drop_refusal()
            _put(request, other)
            response = yield request
            scopes = _missing_scopes(response)
            if response.status_code == 401:
                self._tokens.refuse_new(other)
        noted = refusals.get()
        if scopes is not None and noted:
            noted[-1] += f": {self._tokens.more_scopes([shlex.quote(scope) for scope in scopes])}"


def _missing_scopes(response: httpx2.Response) -> list[str] | None:
    """The scopes that the server asks for; None unless that is why it refuses the request."""
    said = response.headers.get("www-authenticate", "")
    if response.status_code != 403 or not re.search(r'\berror="?insufficient_scope\b', said):
        return None
    found = re.search(r'\bscope="([^"]*)"', said)
    return [scope for scope in (found[1].split() if found else ()) if is_scope(scope)][:_MAX_SCOPES]


def _put(request: httpx2.Request, sign_in: SignIn | None) -> None:
    if sign_in is not None:
        request.headers["Authorization"] = f"Bearer {sign_in.access_token}"


def drop_refusal() -> None:
    """The refusal is answered by another token; what is noted there explains the errors of calls."""
    noted = refusals.get()
    if noted:
        noted.pop()


class HeadersAuth(httpx2.Auth):
    """The authentication of one server's client."""

    def __init__(self, url: str, headers: CommandHeaders) -> None:
        self._origin = origin_of(url)
        self._headers = headers

    async def async_auth_flow(self, request: httpx2.Request) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        if origin_of(str(request.url)) != self._origin:
            yield request
            return
        sent = self._headers.current
        request.headers.update(sent)
        response = yield request
        if response.status_code != 401:
            return
        other = await self._headers.after_refusal(sent)
        if other is None:
            return
        drop_refusal()
        request.headers.update(other)
        yield request
