"""Lists the resources, templates and prompts of a server; what it does not declare is not asked for.

An invalid entry costs only itself, and a listing that fails only that listing: the tools are there all the same.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import anyio

from codemode_server.domain.resources import PromptArgument, PromptDefinition, ResourceDefinition
from codemode_server.text import clean, clean_line
from codemode_server.upstreams._connection_deps import Timings
from codemode_server.upstreams._link import Link

if TYPE_CHECKING:
    from codemode_server.upstreams._link import Link

MAX_PAGES = 200
MAX_RESOURCES = 10_000
MAX_TEMPLATES = 1_000
MAX_PROMPTS = 500
MAX_PROMPT_ARGUMENTS = 50
MAX_LISTING_CHARACTERS = 4 * 2**20
"""Size limit of each of the three listings of a server, as JSON."""
MAX_URI_CHARACTERS = 8_192
MAX_NAME_CHARACTERS = 256
MAX_DESCRIPTION_CHARACTERS = 4 * 1024
_MAX_CURSOR_CHARACTERS = 64 * 1024
_MAX_PROBLEMS = 20

Redact = Callable[[Any], Any]


@dataclass(frozen=True, slots=True)
class OffersFound:
    """Offers of a server beside its tools, and a line for each problem."""

    resources: tuple[ResourceDefinition, ...] = ()
    """Resources, then templates."""
    prompts: tuple[PromptDefinition, ...] = ()
    problems: tuple[str, ...] = ()


class _Refused(Exception):
    """Raised for an entry that can't be used; the message says why."""


async def list_offers(link: Link, redact: Redact) -> OffersFound:
    """Ask for every page of what the server declares."""
    declared = link.session.server_capabilities
    problems: list[str] = []
    resources: list[ResourceDefinition] = []
    prompts: list[PromptDefinition] = []
    if declared is not None and declared.resources is not None:
        taken = _Taken("resources", MAX_RESOURCES, _to_resource, redact, problems)
        resources += await _list(link, "resources/list", taken)
        templates = _Taken("resourceTemplates", MAX_TEMPLATES, _to_template, redact, problems)
        resources += await _list(link, "resources/templates/list", templates)
    if declared is not None and declared.prompts is not None:
        prompts += await _list(link, "prompts/list", _Taken("prompts", MAX_PROMPTS, _to_prompt, redact, problems))
    if len(problems) > _MAX_PROBLEMS:
        problems[_MAX_PROBLEMS:] = [f"and {len(problems) - _MAX_PROBLEMS} more"]
    return OffersFound(tuple(resources), tuple(prompts), tuple(problems))


async def _list(link: Link, method: str, taken: _Taken) -> list[Any]:
    from mcp.shared.exceptions import MCPError
    from mcp_types import METHOD_NOT_FOUND

    from codemode_server.upstreams._link import is_end

    cursor: str | None = None
    try:
        for _ in range(MAX_PAGES):
            answer = await link.request(method, {} if cursor is None else {"cursor": cursor})
            cursor = await answer.read(taken.take)
            if cursor is None:
                return taken.entries
        taken.problems.append(f"{method}: only the first {MAX_PAGES} pages are taken")
    except MCPError as error:
        if is_end(error):
            raise
        if error.code != METHOD_NOT_FOUND:  # many servers with resources have no method for templates
            taken.problems.append(f"{method} failed: {clean_line(taken.redact(error.message), 200)}")
    return taken.entries


class _Taken:
    """The entries taken so far from one listing."""

    def __init__(
        self, key: str, most: int, to_entry: Callable[[dict[str, Any]], Any], redact: Redact, problems: list[str]
    ) -> None:
        self.entries: list[Any] = []
        self.redact = redact
        self.problems = problems
        self._key = key
        self._most = most
        self._to_entry = to_entry
        self._seen: set[str] = set()
        self._characters_left = MAX_LISTING_CHARACTERS
        self._cursors: set[str] = set()

    def take(self, answer: dict[str, Any]) -> str | None:
        """Take a page; the cursor of the next one, if more can be taken."""
        listed = answer.get(self._key)
        for position, raw in enumerate(listed if isinstance(listed, list) else []):
            if len(self.entries) >= self._most or self._characters_left <= 0:
                self.problems.append(f"only the first {len(self.entries):,} {self._key} are taken")
                return None
            try:
                self._take_one(raw)
            except _Refused as refusal:
                self.problems.append(f"number {position + 1} of its {self._key}: {refusal}")
        cursor = answer.get("nextCursor")
        if not isinstance(cursor, str) or not cursor or cursor in self._cursors or len(cursor) > _MAX_CURSOR_CHARACTERS:
            return None
        self._cursors.add(cursor)
        return cursor

    def _take_one(self, raw: Any) -> None:
        try:
            self._characters_left -= len(json.dumps(raw, ensure_ascii=False))
            shown = self.redact(raw)
        except (RecursionError, ValueError, TypeError):
            raise _Refused("it is nested too deeply") from None
        if not isinstance(raw, dict) or not isinstance(shown, dict):
            raise _Refused("it is no object")
        if any(raw.get(key) != shown.get(key) for key in ("uri", "uriTemplate", "name")):
            raise _Refused("its name or URI holds a secret of the configuration")
        entry = self._to_entry(shown)
        key = entry.name if isinstance(entry, PromptDefinition) else entry.uri
        if key not in self._seen:
            self._seen.add(key)
            self.entries.append(entry)


def _to_resource(raw: dict[str, Any]) -> ResourceDefinition:
    return _resource(raw, "uri", is_template=False)


def _to_template(raw: dict[str, Any]) -> ResourceDefinition:
    found = _resource(raw, "uriTemplate", is_template=True)
    from mcp.shared.uri_template import InvalidUriTemplate, UriTemplate

    try:
        UriTemplate.parse(found.uri, max_variables=MAX_PROMPT_ARGUMENTS)
    except InvalidUriTemplate as error:
        raise _Refused(f"its URI template can't be used: {clean_line(str(error), 120)}") from None
    return found


def _resource(raw: dict[str, Any], key: str, *, is_template: bool) -> ResourceDefinition:
    uri, size = raw.get(key), raw.get("size")
    if not isinstance(uri, str) or not uri or uri != clean_line(uri, MAX_URI_CHARACTERS):
        raise _Refused(f"its {key} is missing, too long or has characters that can't be shown")
    annotated = _line(raw.get("title"), 200)
    return ResourceDefinition(
        uri=uri,
        name=_line(raw.get("name"), MAX_NAME_CHARACTERS),
        title=annotated or None,
        description=_text(raw.get("description")),
        mime_type=_line(raw.get("mimeType"), 100) or None,
        size=size if isinstance(size, int) and not isinstance(size, bool) and 0 <= size < 2**63 else None,
        is_template=is_template,
    )


def _to_prompt(raw: dict[str, Any]) -> PromptDefinition:
    name, listed = raw.get("name"), raw.get("arguments")
    if not isinstance(name, str) or not name or name != clean_line(name, MAX_NAME_CHARACTERS):
        raise _Refused("its name is missing, too long or has characters that can't be shown")
    arguments = listed if isinstance(listed, list) else []
    if len(arguments) > MAX_PROMPT_ARGUMENTS:
        raise _Refused(f"it has more than {MAX_PROMPT_ARGUMENTS} arguments")
    return PromptDefinition(
        name=name,
        title=_line(raw.get("title"), 200) or None,
        description=_text(raw.get("description")),
        arguments=tuple(_to_argument(argument) for argument in arguments),
    )


def _to_argument(raw: Any) -> PromptArgument:
    name = raw.get("name") if isinstance(raw, dict) else None
    if not isinstance(name, str) or not name or name != clean_line(name, MAX_NAME_CHARACTERS):
        raise _Refused("the name of an argument is missing, too long or has characters that can't be shown")
    return PromptArgument(name, _text(raw.get("description")), raw.get("required") is True)


def _line(value: Any, limit: int) -> str:
    return clean_line(value, limit) if isinstance(value, str) else ""


def _text(value: Any) -> str:
    return clean(value[:MAX_DESCRIPTION_CHARACTERS]) if isinstance(value, str) else ""


logger = logging.getLogger(__name__)

_PAUSE_PER_LISTING = 20
"""The pause between two listings, as a multiple of the time that one took."""
_MAX_PAUSE_S = 10.0


class OfferUpkeep:
    """Lists what one link offers, first at once and then after each change."""

    def __init__(self, name: str, timings: Timings) -> None:
        self._name = name
        self._timings = timings
        self._changed = anyio.Event()
        self._first = anyio.Event()

    def note_change(self) -> None:
        self._changed.set()

    async def wait_first(self) -> None:
        """Wait, a bounded time, for the first listing: the tools of a server need not wait for its resources."""
        with anyio.move_on_after(self._timings.offers_s):
            await self._first.wait()

    async def run(
        self, link: Link, redact: Callable[[], Redact], take: Callable[[OffersFound], Awaitable[None]]
    ) -> None:
        """List now and after each change, until cancelled; `take` is given each listing."""
        from mcp.shared.exceptions import MCPError

        while True:
            self._changed = anyio.Event()
            started = anyio.current_time()
            try:
                with anyio.fail_after(self._timings.list_s):
                    found = await list_offers(link, redact())
                await take(found)
            except (MCPError, TimeoutError) as error:
                logger.info("upstream %r: its resources and prompts can't be listed: %s", self._name, error)
            self._first.set()
            pause_s = min(_MAX_PAUSE_S, _PAUSE_PER_LISTING * (anyio.current_time() - started))
            await self._changed.wait()
            # A server that notifies without end must not take all of our time.
            await anyio.sleep(max(self._timings.debounce_s, pause_s))
