"""A host API with one server whose tools give their results page by page, each in another service's way; and a few more."""

# ruff: noqa: E501 - stubs read best on one line

from __future__ import annotations

from typing import Any

from codemode_server.domain.errors import CallRefused, ToolFailed
from codemode_server.sandbox.contract import Reply
from tests.sandbox.lab import HEAD, Tools

ITEMS = [{"id": n, "name": f"item {n}"} for n in range(1, 8)]
STUBS = {
    "get_item": "def get_item(owner: str, item_id: int, note: str = ...) -> Any: ...",
    "update": "def update(data: dict[str, Any], key: str = ...) -> Any: ...",
    "forbidden": "def forbidden(n: int) -> Any: ...",
    "by_cursor": "def by_cursor(query: str, cursor: str = ...) -> Any: ...",
    "by_token": "def by_token(page_size: int = ..., next_token: str = ...) -> Any: ...",
    "by_graph": "def by_graph(after: str = ...) -> Any: ...",
    "by_url": "def by_url(page: int = ..., PageToken: str = ...) -> Any: ...",
    "by_number": "def by_number(page: float = ..., per_page: int = ...) -> Any: ...",
    "by_index": 'def by_index(pageIdx: int = ...) -> Any:\n    """List.\n\n    pageIdx: Page number (0-based).\n    """',
    "by_offset": "def by_offset(start_at: int = 0, limit: int = 3) -> Any: ...",
    "same_cursor": "def same_cursor(cursor: str = ...) -> Any: ...",
    "endless": "def endless(cursor: str = ...) -> Any: ...",
    "text": "def text(page: int = ...) -> Any: ...",
    "by_start": "def by_start(url: str, max_length: int = 5000, start_index: int = 0) -> Any: ...",
    "breaks": "def breaks(cursor: str = ...) -> Any: ...",
    "two_lists": "def two_lists(page: int = 1) -> Any: ...",
    "says_more": "def says_more(cursor: str = ...) -> Any: ...",
    "required": "def required(offset: int) -> Any: ...",
    "picture": "def picture() -> Any: ...",
    "documents": "def documents() -> Any: ...",
    "chart": "def chart() -> Any: ...",
    "count": "def count() -> Any: ...",
}


def pages(start: int, size: int = 3) -> tuple[list[dict[str, Any]], int | None]:
    """So many items from `start` on, and where the next page starts."""
    return ITEMS[start : start + size], start + size if start + size < len(ITEMS) else None


class Shop(Tools):
    """`tools.asked` has the arguments of each call, in order."""

    @property
    def asked(self) -> list[dict[str, Any]]:
        return [arguments for _, _, arguments in self.calls]

    async def load(self, module: str) -> dict[str, Any]:
        match module.split("."):
            case ["servers", "shop"]:
                return {"kind": "package", "names": list(STUBS), "doc": "Shop."}
            case ["servers", "shop", tool] if tool in STUBS:
                return {"kind": "module", "source": f'{HEAD}\n@tool("shop", "{tool}")\n{STUBS[tool]}\n'}
        return await super().load(module)

    async def _answer(self, server: str, tool: str, arguments: dict[str, Any]) -> Reply:
        if server != "shop":
            return await super()._answer(server, tool, arguments)
        return _reply(tool, arguments)


def _reply(tool: str, given: dict[str, Any]) -> Reply:
    match tool:
        case "get_item":
            if given["item_id"] < 0:
                raise ToolFailed(f"no item {given['item_id']}")
            return Reply(given)
        case "breaks":
            if given.get("cursor") == "3":
                raise ToolFailed("the database is gone")
            return Reply(_page("by_cursor", {"query": "", **given}))
        case "forbidden":
            raise CallRefused("shop.forbidden is not permitted")
        case "picture" | "documents" | "chart" | "count":
            return Reply(*BLOCKS[tool])
    return Reply(_page(tool, given))


def _page(tool: str, given: dict[str, Any]) -> Any:
    match tool:
        case "by_cursor":
            items, after = pages(int(given.get("cursor") or 0))
            return {"items": items, "query": given["query"], "next_cursor": None if after is None else str(after)}
        case "by_token":
            items, after = pages(int(given.get("next_token") or 0), given.get("page_size", 3))
            return {"data": {"rows": items, "warnings": []}, **({} if after is None else {"nextToken": str(after)})}
        case "by_graph":
            items, after = pages(int(given.get("after") or 0))
            info = {"hasNextPage": after is not None, "endCursor": str(items[-1]["id"])}
            return {"repository": {"issues": {"nodes": items, "pageInfo": info, "totalCount": 7}}}
        case "by_url":
            items, after = pages(int(given.get("PageToken", "PA0")[2:]))
            url = None if after is None else f"/2010/Calls.json?PageSize=3&Page={after // 3}&PageToken=PA{after}"
            return {"calls": items, "next_page_uri": url, "page": given.get("page", 0), "page_size": 3}
        case "by_number":
            return pages(3 * (int(given.get("page", 1)) - 1))[0]
        case "by_index":
            return pages(3 * given.get("pageIdx", 0))[0]
        case "by_offset":
            items, _ = pages(given.get("start_at", 0), given.get("limit", 3))
            return {"issues": items, "start_at": given.get("start_at", 0), "total": len(ITEMS)}
        case "by_start":
            start = given.get("start_index", 0)
            note = f"\n\n<error>Content truncated. Call the fetch tool with a start_index of {start + 5} to get more.</error>"
            return f"{'abcdefghijkl'[start : start + 5]}{note if start < 10 else ''}"
        case "same_cursor":
            return {"items": [{"id": 1}], "cursor": "A"}
        case "endless":
            return {"items": [], "next_cursor": str(int(given.get("cursor", 0)) + 1)}
        case "two_lists":
            return {"apples": [{"id": 1}], "pears": [{"id": 2}], "page": given.get("page", 1), "is_last": True}
        case "says_more":
            return {"items": [1], "has_more": True}
        case "required":
            return pages(given["offset"])[0]
    return "text" if tool == "text" else given


LINK = {"type": "file", "mime_type": "text/plain", "name": "a", "uri": "doc://a", "size": 8, "description": "the first"}
PICTURE = {"type": "file", "data": "aGk=", "mime_type": "image/png", "name": None, "uri": None}
EMBEDDED = {"type": "file", "text": '{"a": 1}', "mime_type": "application/json", "name": "e", "uri": "doc://e"}
BLOCKS: dict[str, tuple[Any, Any]] = {
    "picture": ([{"type": "text", "text": "here"}, PICTURE], "blocks"),
    "documents": ([LINK, EMBEDDED], "blocks"),
    "chart": ([{"type": "json", "value": {"width": 3}, "beside": {"files": [PICTURE], "text": "a chart"}}], "blocks"),
    "count": ([{"type": "json", "value": 42, "beside": {"text": "42, but\nthree days old"}}], "blocks"),
}
