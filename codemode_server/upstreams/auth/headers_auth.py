"""Adds the headers that a command printed to requests, and tries once more with new ones where the server refuses."""

from __future__ import annotations

from collections.abc import AsyncGenerator

import httpx2

from codemode_server.upstreams.auth.bearer import drop_refusal
from codemode_server.upstreams.auth.command_headers import CommandHeaders
from codemode_server.upstreams.auth.sign_in import origin_of


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
