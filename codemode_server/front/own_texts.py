"""What answers about the catalog are made of beside the product's own words, so that no upstream turns those words into
privacy tokens: known values are looked for only in what upstreams and programs wrote, and never in names."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

from codemode_server.catalog.catalog import Catalog, Server, Tool
from codemode_server.catalog.own_names import names_and_words
from codemode_server.catalog.resources import Resource
from codemode_server.catalog.stubs import OBSERVED_LINE
from codemode_server.catalog.tree_answers import Entry, File, Folder, TopicEntry
from codemode_server.domain.skills import Skill
from codemode_server.known_values import OwnText
from codemode_server.redaction import Redactor
from codemode_server.search.results import SearchResults

_MAX_PIECE_CHARACTERS = 10_000
"""No description is shown longer."""
_TEXTS_IN_SCHEMAS = frozenset({"const", "default", "description", "enum", "examples", "title"})


def _own_text(catalog: Catalog, pieces: Callable[[], Iterable[str]]) -> OwnText:
    """A text about the catalog that has these pieces of other authors."""
    return OwnText(pieces, partial(names_and_words, catalog))


def shown_part(catalog: Catalog, part: File | Folder, redactor: Redactor) -> str:
    """A file or a folder as the model gets it."""
    top, *rest = part.path.strip("/").split("/")
    if isinstance(part, File) and top != "servers":
        return redactor.visible(part.text)  # a program wrote it, or a person

    def pieces() -> Iterable[str]:
        if top not in ("", "servers"):
            return (
                [*rest, *(text for it in part.entries for text in _collect_from_entry(it))]
                if isinstance(part, Folder)
                else rest
            )
        server = catalog.by_name.get(rest[0]) if rest else None
        if server is None:
            return [text for it in catalog.servers for text in _collect_from_server(it)]
        tool = server.by_name.get(rest[1].removesuffix(".py")) if len(rest) == 2 else None
        if isinstance(part, File):
            return [
                *_collect_from_server(server),
                *(_collect_from_resources(server) if tool is None else _collect_from_tool(tool)),
            ]
        return [*_collect_from_server(server), *(it.summary for it in server.tools), *_collect_from_resources(server)]

    return redactor.for_own(_own_text(catalog, pieces)).visible(part.text)


def collect_from_search(catalog: Catalog, found: SearchResults) -> OwnText:
    """What the answer to a search is made of."""

    def pieces() -> Iterator[str]:
        for tool in found.tools:
            yield from _collect_from_tool(tool)
        for server in catalog.servers:
            yield from _collect_from_server(server)
        for one in found.results:
            if isinstance(one.thing, Skill):
                yield from (one.thing.summary, one.thing.name, one.thing.signature)
        for resource, _ in found.resources:
            yield from _collect_from_resource(resource)

    return _own_text(catalog, pieces)


def _collect_from_entry(entry: Entry | TopicEntry) -> tuple[str, ...]:
    return (entry.name, entry.note) if isinstance(entry, Entry) else (entry.name, *entry.tools)


def _collect_from_server(server: Server) -> Iterator[str]:
    yield from (server.description, server.cause, *server.problems)
    for prompt in server.prompts:
        yield from (prompt.name, prompt.title or "", prompt.description)


def _collect_from_tool(tool: Tool) -> Iterator[str]:
    said = tool.definition
    yield said.description[:_MAX_PIECE_CHARACTERS]
    yield said.title or ""
    yield from _collect_from_schema(said.input_schema)
    yield from _collect_from_schema(said.output_schema)
    if OBSERVED_LINE in tool.stub.source:
        yield tool.stub.source.partition(OBSERVED_LINE)[2].partition("\n@tool(")[0]
    if (text := tool.returned.text) is not None:
        yield text.first_line
    for case in tool.returned.by_argument:
        yield case.text


def _collect_from_resources(server: Server) -> Iterator[str]:
    for resource in server.resources.all if server.listing.resources else ():
        yield from _collect_from_resource(resource)


def _collect_from_resource(resource: Resource) -> tuple[str, ...]:
    it = resource.definition
    said = it.description[:_MAX_PIECE_CHARACTERS]
    return resource.name, it.public_uri, it.name, it.title or "", it.mime_type or "", said


def _collect_from_schema(schema: Any) -> Iterator[str]:
    """The texts of a schema that are no names and no keywords."""
    waiting = [(schema, False)]
    while waiting:
        item, is_text = waiting.pop()
        if isinstance(item, dict):
            waiting += [(value, is_text or key in _TEXTS_IN_SCHEMAS) for key, value in item.items()]
            if is_text:
                yield from map(str, item)
        elif isinstance(item, list):
            waiting += [(value, is_text) for value in item]
        elif is_text:
            yield str(item)[:_MAX_PIECE_CHARACTERS]
