"""Adds the token of a sign-in to requests, and tries once more with a new one where the server refuses it."""

from __future__ import annotations

from collections.abc import AsyncGenerator

import httpx2

from codemode_server.upstreams.auth.sign_in import SignIn, origin_of
from codemode_server.upstreams.auth.tokens import ServerTokens
from codemode_server.upstreams.transports.registry import refusals


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
        if response.status_code != 401:
            return
        other = await self._tokens.after_refusal(sent)
        if other is None:
            return
        _drop_refusal()
        _put(request, other)
        response = yield request
        if response.status_code == 401:
            self._tokens.refuse_new(other)


def _put(request: httpx2.Request, sign_in: SignIn | None) -> None:
    if sign_in is not None:
        request.headers["Authorization"] = f"Bearer {sign_in.access_token}"


def _drop_refusal() -> None:
    """The refusal is answered by another token; what is noted there explains the errors of calls."""
    noted = refusals.get()
    if noted:
        noted.pop()
