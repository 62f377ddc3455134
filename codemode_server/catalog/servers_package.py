"""The source of `servers/__init__.py` for people and type checkers; the sandbox has its own implementation.

The types are those of synchronous code: a call takes the parameters of the stub and returns its return type. In async
code the same call returns an awaitable of it, which Python's type system can't express.
"""

from __future__ import annotations

SERVERS_PACKAGE = '''"""Tools of the upstream MCP servers as Python functions: `from servers.<server> import <tool>`.

Generated for reading, editors and type checkers. The functions work inside execute_code only, where a program may use
them in either way:

    doc = get_document(document_id)["content"]                # from plain code: waits for the result
    rows = await get_sheet({"sheetId": "abc"})                # from async code: awaitable
    both = await asyncio.gather(*[get_page(n) for n in ids])  # at the same time

Arguments go by keyword, by position in the order of the signature, or as one dict with the upstream's own names. An
argument whose default is `...` is not sent unless given. Every tool has three more forms:

    for issue in list_issues.pages(repo="a/b"): ...  # items of all pages; .pages(...).first(100), .by_page()
    docs = get_document.map(ids)                     # a call for each, 8 at a time; results in the order of the ids
    docs.ok, docs.errors                             # those that succeeded; {index: error} of the others
    whole = get_document.raw(document_id)            # as the server sent it: content, structuredContent, isError

The items of `map` are values of the first parameter, tuples by position, or dicts of arguments; what all have in
common goes by keyword. In async code: `await tool.map(...)`, `async for item in tool.pages(...)`.

A call that fails raises `ToolError`, in `map` it leaves None; that of `pages` has what was read before in `.items`.
`ToolError` needs no import. A call over the limit ends the program; the next one reads the results so far.
An image, sound or document is a `File` with `data`, `mime_type`, `name`, `uri`, `text` and `save(path)`; a link to one
has `is_link`, and is fetched when its content is used, or by `fetch()`. A result that came with files or with a text
beside it has `.files` and `.text`. Base64 in it is shown to you as a summary; programs read it whole.

    from codemode import checkpoint, results, show
    show(file)                      # the model sees it: a File, a result, bytes, a path
    rows = results["x7f3a9c21b04"]  # what an earlier program of this session returned, whole; results.last
    issue = results["x7f3a9c21b04/calls/3"]  # of a program that failed: what its call 3 returned
    checkpoint.save(step=3, context={"done": ["a"]})  # JSON, up to 64 KiB, for a program of any later session
    point = checkpoint.load()       # {"step": 3, "context": {...}, "last_task": ..., "timestamp": ...}, or None

A file /workspace/helpers.py is imported by `import helpers`, unless Python has a module of that name. The files in
/workspace/sessions, if it is there, are the logs of earlier sessions: description, code, result and output of programs.
"""

from collections.abc import AsyncIterator, Callable, Generator, Iterable, Iterator
from typing import Any, ParamSpec, Protocol, TypeVar, cast, overload

P = ParamSpec("P")
T = TypeVar("T")
R = TypeVar("R", covariant=True)


class ToolError(Exception):
    """A call did not succeed; the program goes on if it catches this."""

    message: str
    server: str
    tool: str
    kind: str  # "refused", "invalid_arguments", "unavailable", "timed_out", "tool_failed", "result_too_large", …


class File:
    """Bytes that a tool gave: an image, a sound, a document; `codemode.File`."""

    data: bytes
    mime_type: str | None
    name: str | None
    uri: str | None
    description: str | None
    is_link: bool
    is_text: bool

    @property
    def size(self) -> int: ...
    def __len__(self) -> int:
        """Characters of a text, bytes of anything else; `size` is always in bytes."""

    @property
    def text(self) -> str: ...
    def json(self) -> Any: ...
    def save(self, path: Any) -> Any: ...
    def fetch(self) -> Any: ...


class Mapped(list[T]):
    """The results of `map` in the order of the items, None for one that failed."""

    errors: dict[int, Exception]

    @property
    def ok(self) -> list[T]:
        return [value for index, value in enumerate(self) if index not in self.errors]

    def __await__(self) -> Generator[Any, Any, "Mapped[T]"]:
        raise NotImplementedError


class Pages(Protocol):
    """The items of all pages, asked for as they are needed."""

    def __iter__(self) -> Iterator[Any]: ...
    def __aiter__(self) -> AsyncIterator[Any]: ...
    def __await__(self) -> Generator[Any, Any, list[Any]]: ...
    def first(self, count: int) -> "Pages": ...
    def by_page(self) -> "Pages": ...


class Tool(Protocol[P, R]):
    """A tool as a function; in async code what its call gives is awaitable."""

    @overload
    def __call__(self, arguments: dict[str, Any], /) -> R: ...
    @overload
    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R: ...
    @property
    def raw(self) -> "Tool[P, Any]":
        """The same tool, giving its results whole, as dicts, also those that say that they are an error."""

    def map(self, items: Iterable[Any], /, *, concurrency: int = 8, **common: Any) -> Mapped[R | Any]: ...
    def pages(self, *args: Any, **kwargs: Any) -> Pages: ...


def tool(server: str, name: str, renamed: dict[str, str] | None = None, /) -> Callable[[Callable[P, R]], Tool[P, R]]:
    """Make a function the tool `name` of `server`; `renamed` maps parameters to the names that the upstream has."""

    def decorate(function: Callable[P, R]) -> Tool[P, R]:
        def call(*args: Any, **kwargs: Any) -> Any:
            raise RuntimeError(f"servers.{server}.{name} runs inside execute_code only")

        call.__name__, call.__qualname__, call.__doc__ = name, name, function.__doc__
        return cast("Tool[P, R]", call)

    return decorate
'''
