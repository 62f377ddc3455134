"""Lists the tools, resources, templates and prompts of a server, page by page and one entry at a time.

An invalid entry costs only itself, and a listing of resources or prompts that fails only that listing.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Hashable
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from codemode_server.catalog.summaries import server_purpose
from codemode_server.domain.definitions import canonical_text, digest_of
from codemode_server.domain.ids import JsonSchema
from codemode_server.domain.resources import PromptArgument, PromptDefinition, ResourceDefinition
from codemode_server.domain.tools import Effect, ToolDefinition
from codemode_server.support.json_values import MAX_VALUES
from codemode_server.support.redaction import NO_SECRETS, Redactor
from codemode_server.support.text import clean, clean_line, first_lines
from codemode_server.upstreams.answers import Answer, ConnectionEnded, RequestFailed
from codemode_server.upstreams.messages import NOT_TAKEN
from codemode_server.upstreams.repairs import as_flag, as_object, as_text, entries, input_schema, schema

if TYPE_CHECKING:
    from codemode_server.upstreams.session import Session

LIST_IS = "its list of tools is "
"""Beginning of the error for a list that was refused."""
MAX_PAGES = 200
MAX_TOOLS = 10_000
MAX_RESOURCES = 10_000
MAX_TEMPLATES = 1_000
MAX_PROMPTS = 500
MAX_PROMPT_ARGUMENTS = 50
MAX_LISTING_CHARACTERS = 16 * 2**20
"""Size limit of each listing of a server, as JSON. The tools of the largest real server have 2 MiB."""
MAX_SCHEMA_CHARACTERS = 512 * 1024
"""Size limit of a tool's schema as JSON; the largest of 2,843 real ones has about 100,000."""
MAX_DESCRIPTION_CHARACTERS = 32 * 1024
MAX_NAME_CHARACTERS = 256
MAX_URI_CHARACTERS = 8_192
MAX_CURSOR_CHARACTERS = 64 * 1024
_MAX_PROBLEMS = 100
_SCHEMA_KEYS = ("inputSchema", "input_schema", "parameters")
_MAX_LEFT_OUT = 1_000
_SERVER_DESCRIPTION_CHARACTERS = 200

Redact = Callable[[Any], Any]
"""Gives a JSON value without the secrets of the configuration."""

Cursor = str | int | dict[str, Any]


@dataclass(frozen=True, slots=True)
class ToolsFound:
    """All callable tools of one server, the reason by name for each other one, and a line for each other problem."""

    tools: tuple[ToolDefinition, ...]
    left_out: dict[str, str]
    problems: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class OffersFound:
    """Offers of a server beside its tools, and a line for each problem."""

    resources: tuple[ResourceDefinition, ...] = ()
    """Resources, then templates."""
    prompts: tuple[PromptDefinition, ...] = ()
    problems: tuple[str, ...] = ()


class Asks(Protocol):
    """Sends a request of a listing; `Session` does."""

    async def request(self, method: str, params: dict[str, Any]) -> Answer: ...


async def list_tools(
    session: Asks, *, refuse_schema: Callable[[JsonSchema], str | None], redact: Redact = lambda value: value
) -> ToolsFound:
    """All tools that fit. `refuse_schema` says what the negotiated protocol forbids in an input schema. Raises
    `RequestFailed`: as `Session.request`."""
    from mcp_types import METHOD_NOT_FOUND

    problems: list[str] = []
    left_out: dict[str, str] = {}
    to_tool = partial(_to_tool, refuse_schema=refuse_schema, problems=problems)
    taken = _Taken[ToolDefinition]("tools", "tool", MAX_TOOLS, to_tool, redact, problems, left_out)
    try:
        await _list(session, "tools/list", taken)
    except RequestFailed as error:
        if error.code in NOT_TAKEN:
            raise RequestFailed(error.code, f"{LIST_IS}{error.message.partition(';')[0]}") from error
        if error.code != METHOD_NOT_FOUND or taken.entries:  # a server of prompts or resources only
            raise
    for name in left_out.keys() & taken.entries.keys():
        problems.append(f"another tool {name!r} is left out: {left_out.pop(name)}")
    return ToolsFound(tuple(taken.entries.values()), left_out, _shortened(problems))


async def list_offers(session: Session, redact: Redact) -> OffersFound:
    """All resources, templates and prompts that fit; what the server does not declare is not asked for."""
    declared = session.server.capabilities
    problems: list[str] = []
    resources: list[ResourceDefinition] = []
    prompts: list[PromptDefinition] = []
    if "resources" in declared:
        listed = _Taken[ResourceDefinition]("resources", "resource", MAX_RESOURCES, _to_resource, redact, problems)
        kind = "resource template"
        templates = _Taken[ResourceDefinition]("resourceTemplates", kind, MAX_TEMPLATES, _to_template, redact, problems)
        await _list_offer(session, "resources/list", listed)
        await _list_offer(session, "resources/templates/list", templates)
        resources = [*listed.entries.values(), *templates.entries.values()]
    if "prompts" in declared:
        offered = _Taken[PromptDefinition]("prompts", "prompt", MAX_PROMPTS, _to_prompt, redact, problems)
        await _list_offer(session, "prompts/list", offered)
        prompts = [*offered.entries.values()]
    return OffersFound(tuple(resources), tuple(prompts), _shortened(problems))


async def _list_offer(session: Session, method: str, taken: _Taken[Any]) -> None:
    from mcp_types import METHOD_NOT_FOUND

    try:
        await _list(session, method, taken)
    except ConnectionEnded:
        raise
    except RequestFailed as error:
        if error.code != METHOD_NOT_FOUND:  # many servers with resources have no method for templates
            taken.problems.append(f"{method} failed: {clean_line(taken.redact(error.message), 200)}")


async def _list(session: Asks, method: str, taken: _Taken[Any]) -> None:
    cursor: Cursor | None = None
    for _ in range(MAX_PAGES):
        answer = await session.request(method, {} if cursor is None else {"cursor": cursor})
        cursor = await answer.read(taken.take)
        if cursor is None:
            return
    taken.problems.append(f"{method}: only the first {MAX_PAGES} pages are taken")


def _shortened(problems: list[str]) -> tuple[str, ...]:
    return tuple(first_lines(problems, _MAX_PROBLEMS, "and {:,} more"))


class _Refused(Exception):
    """Raised for an entry that can't be used; the message says why."""


E = TypeVar("E", ToolDefinition, ResourceDefinition, PromptDefinition)


class _Taken(Generic[E]):
    """The entries taken so far from one listing. Refused entries count towards its limits too, since they were read."""

    def __init__(
        self,
        key: str,
        kind: str,
        most: int,
        to_entry: Callable[[dict[str, Any]], E],
        redact: Redact,
        problems: list[str],
        left_out: dict[str, str] | None = None,
    ) -> None:
        """`key` is the field of an answer with the entries, `kind` what one is called in `problems`. `left_out` gets
        the reasons for refused entries by name; without it they are problems."""
        self.entries: dict[Hashable, E] = {}
        self.redact = redact
        self.problems = problems
        self._key = key
        self._kind = kind
        self._most = most
        self._number = 0
        self._to_entry: Callable[[dict[str, Any]], E] = to_entry
        self._characters_left = MAX_LISTING_CHARACTERS
        self._values_left = MAX_VALUES
        self._cursors: set[str] = set()
        self._left_out = left_out

    def take(self, answer: dict[str, Any]) -> Cursor | None:
        """Take a page; the cursor of the next one, if more can be taken."""
        said = answer.get(self._key, answer.get("toolResult"))
        listed = entries(said)
        if listed is None:
            self.problems.append(f"`{self._key}` of the listing is no list but {_type_of(said)}")
            listed = []
        for position, raw in enumerate(listed):
            self._number += 1
            if len(self.entries) >= self._most or self._characters_left <= 0 or self._values_left <= 0:
                self.problems.append(
                    f"only the first {len(self.entries):,} {self._key} are taken;"
                    f" {len(listed) - position:,} or more are left out"
                )
                return None
            try:
                self._take_one(raw)
            except _Refused as refusal:
                name = raw.get("name") if isinstance(raw, dict) else None
                which = clean_line(self.redact(name), 80) if isinstance(name, str) else f"number {self._number}"
                if self._left_out is None:
                    self.problems.append(f"{self._kind} {which}: {refusal}")
                elif len(self._left_out) < _MAX_LEFT_OUT:
                    self._left_out[which] = str(refusal)
        cursor = answer.get("nextCursor", answer.get("next_cursor"))
        if not isinstance(cursor, str | int | dict) or not cursor or cursor is True:
            return None
        written = json.dumps(cursor)
        if written in self._cursors or len(written) > MAX_CURSOR_CHARACTERS:
            self.problems.append(f"the pages of its {self._key} go round in a circle, or their cursor is too long")
            return None
        self._cursors.add(written)
        return cursor

    def _take_one(self, raw: Any) -> None:
        try:
            text = json.dumps(raw, ensure_ascii=False)
            shown = self.redact(raw)
        except (RecursionError, ValueError, TypeError):
            raise _Refused("it is nested too deeply") from None
        self._characters_left -= len(text)
        self._values_left -= sum(map(text.count, ",:[{"))
        if not isinstance(raw, dict):
            raise _Refused(f"it is no object but {_type_of(raw)}")
        if any(raw.get(key) != shown.get(key) for key in ("name", "uri", "uriTemplate")):
            raise _Refused("its name or URI holds a secret of the configuration")
        entry = self._to_entry(shown)
        key = entry.uri if isinstance(entry, ResourceDefinition) else entry.name
        first = self.entries.setdefault(key, entry)
        if first != entry:
            name = clean_line(str(key), 80)
            self.problems.append(f"{self._kind} {name!r} is listed twice, with two definitions; the first one is used")


def effect_of(annotations: Any) -> Effect:
    """The effect that a tool's annotations claim. If they say that it writes and not whether it destroys, the
    specification's default applies, which is that it may. Other hints claim no effect."""
    hints = as_object(annotations)
    reads, destroys = as_flag(hints.get("readOnlyHint")), as_flag(hints.get("destructiveHint"))
    if reads is True:
        return Effect.READS
    if destroys is True:
        return Effect.DESTROYS
    if destroys is False:
        return Effect.WRITES
    return Effect.DESTROYS if reads is False else Effect.UNKNOWN


def describe_server(description: str | None, instructions: str | None, redactor: Redactor = NO_SECRETS) -> str:
    """A server's purpose in one line, masked: its own description, or else the fitting sentence of its instructions."""
    own, said = (redactor.visible(redactor.head(text or "", 20_000)) for text in (description, instructions))
    text = clean_line(own, 20_000) or server_purpose(said, _SERVER_DESCRIPTION_CHARACTERS)
    first = re.split(r"(?<=[.!?])\s", text, maxsplit=1)[0]
    return clean_line(first, _SERVER_DESCRIPTION_CHARACTERS)


def _to_tool(
    raw: dict[str, Any], refuse_schema: Callable[[JsonSchema], str | None], problems: list[str]
) -> ToolDefinition:
    name = _name(raw)
    wanted = input_schema(next((raw[key] for key in _SCHEMA_KEYS if raw.get(key)), None))
    if isinstance(wanted, str):
        raise _Refused(f"its inputSchema has type {clean_line(repr(wanted), 40)}")
    if (reason := refuse_schema(wanted)) is not None:
        raise _Refused(clean_line(reason, 200))
    output = raw.get("outputSchema") or None
    if output is not None and not isinstance(output, dict):
        problems.append(f"tool {name!r}: its outputSchema is {_type_of(output)}; taken as if there were none")
        output = None
    output = schema(output) if output else None
    for which, one in (("inputSchema", wanted), ("outputSchema", output)):
        if len(json.dumps(one)) > MAX_SCHEMA_CHARACTERS:
            raise _Refused(f"its {which} is longer than {MAX_SCHEMA_CHARACTERS // 1024} KiB")
    annotations = as_object(raw.get("annotations"))
    title = next((one for one in (raw.get("title"), annotations.get("title")) if isinstance(one, str)), None)
    tool = ToolDefinition(
        name=name,
        description=_text(raw.get("description")),
        title=_line(title, 200) or None,
        input_schema=wanted,
        output_schema=output,
        effect=effect_of(annotations),
        needs_task=as_object(raw.get("execution")).get("taskSupport") == "required",
        is_closed_world=as_flag(annotations.get("openWorldHint")) is False,
    )
    return replace(tool, digest=digest_of(canonical_text(tool)))


def _to_template(raw: dict[str, Any]) -> ResourceDefinition:
    from mcp.shared.uri_template import InvalidUriTemplate, UriTemplate

    template = _to_resource(raw, "uriTemplate", is_template=True)
    try:
        UriTemplate.parse(template.uri, max_variables=MAX_PROMPT_ARGUMENTS)
    except InvalidUriTemplate as error:
        raise _Refused(f"its URI template can't be used: {clean_line(str(error), 120)}") from None
    return template


def _to_resource(raw: dict[str, Any], key: str = "uri", *, is_template: bool = False) -> ResourceDefinition:
    uri, size = raw.get(key), raw.get("size")
    if not isinstance(uri, str) or not uri or uri != clean_line(uri, MAX_URI_CHARACTERS):
        raise _Refused(f"its {key} is missing, too long or has characters that can't be shown")
    return ResourceDefinition(
        uri=uri,
        name=_line(raw.get("name"), MAX_NAME_CHARACTERS),
        title=_line(raw.get("title"), 200) or None,
        description=_text(raw.get("description")),
        mime_type=_line(raw.get("mimeType"), 100) or None,
        size=size if isinstance(size, int) and not isinstance(size, bool) and 0 <= size < 2**63 else None,
        is_template=is_template,
    )


def _to_prompt(raw: dict[str, Any]) -> PromptDefinition:
    name, listed = _name(raw), raw.get("arguments")
    arguments = listed if isinstance(listed, list) else []
    if len(arguments) > MAX_PROMPT_ARGUMENTS:
        raise _Refused(f"it has more than {MAX_PROMPT_ARGUMENTS} arguments")
    return PromptDefinition(
        name=name,
        title=_line(raw.get("title"), 200) or None,
        description=_text(raw.get("description")),
        arguments=tuple(map(_to_argument, arguments)),
    )


def _to_argument(raw: Any) -> PromptArgument:
    name = _name(raw, "the name of an argument")
    return PromptArgument(name, _text(raw.get("description")), as_flag(raw.get("required")) is True)


def _name(raw: Any, what: str = "its name") -> str:
    name = raw.get("name") if isinstance(raw, dict) else None
    if not isinstance(name, str) or not name or name != clean_line(name, MAX_NAME_CHARACTERS):
        raise _Refused(f"{what} is missing, too long or has characters that can't be shown")
    return name


def _line(value: Any, limit: int) -> str:
    return clean_line(value, limit) if isinstance(value, str) else ""


def _text(value: Any) -> str:
    return clean((as_text(value) or "")[:MAX_DESCRIPTION_CHARACTERS])


def _type_of(value: Any) -> str:
    return "missing" if value is None else f"a {type(value).__name__}"
