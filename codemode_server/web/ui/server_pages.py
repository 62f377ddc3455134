"""Answers the requests to the page of servers. The site has checked already who sent them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from starlette.requests import Request
from starlette.responses import Response

from codemode_server.web.ui.server_records import ServerRecords


class ShowPage(Protocol):
    """Makes a page of a template, with the navigation."""

    async def __call__(
        self, template: str, section: str, request: Request | None, *, is_live: bool = False, **values: Any
    ) -> Response: ...


class ServerPages:
    """What the site has below `servers`."""

    def __init__(
        self,
        records: ServerRecords,
        page: ShowPage,
        message: Callable[[int, str, str], Response],
        redirect: Callable[[str], Response],
    ) -> None:
        self._records = records
        self._page = page
        self._message = message
        self._redirect = redirect

    async def shown(self, parts: list[str], request: Request) -> Response:
        match parts:
            case []:
                every = await self._records.servers()
                return await self._page("servers", "servers", request, found=every, is_live=every.is_checking)
            case [key, "tools", tool_key]:
                return await self._review(key, tool_key)
            case [key, "sign-in"]:
                found = await self._records.sign_in(key)
                is_running = found.state is not None and found.state.is_running
                return await self._page("sign_in", "servers", request, found=found, key=key, is_live=is_running)
        return self._message(404, "Nothing here", "There is no such page.")

    async def posted(self, parts: list[str], form: Mapping[str, str]) -> Response:
        """The answer to a form of one of the pages."""
        match parts:
            case ["check"]:
                self._records.check()
            case [key, "enable" | "disable" as action]:
                await self._records.switch(key, is_enabled=action == "enable")
            case [key, "tools", tool_key, "accept"]:
                if not await self._records.accept(key, tool_key, form.get("digest", "")):
                    return await self._review(key, tool_key, has_changed=True)
            case [key, "sign-in"]:
                await self._records.begin_sign_in(key)
                return self._redirect(f"servers/{key}/sign-in")
            case [key, "sign-in", "cancel"]:
                await self._records.cancel_sign_in(key)
                return self._redirect(f"servers/{key}/sign-in")
            case _:
                return self._message(404, "Nothing here", "There is no such form.")
        return self._redirect("servers")

    async def _review(self, key: str, tool_key: str, *, has_changed: bool = False) -> Response:
        found = await self._records.review(key, tool_key)
        if found is None:
            return self._message(404, "Nothing to review", "This tool was accepted meanwhile, or is listed no more.")
        response = await self._page(
            "review", "servers", None, found=found, action=f"servers/{key}/tools/{tool_key}", has_changed=has_changed
        )
        response.status_code = 409 if has_changed else 200
        return response
