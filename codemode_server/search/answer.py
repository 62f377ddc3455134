"""Answers `search_tools`: selects the ranked results to show and the message that goes with them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Sequence, Set
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TypeVar, get_args

from codemode_server.catalog.catalog import Catalog, RefusalOf, Server, Tool, no_refusal, shown
from codemode_server.catalog.naming import words
from codemode_server.catalog.resources import Resource, ServerResources
from codemode_server.catalog.untrusted import one_line
from codemode_server.domain.errors import MetaToolError, UnknownTool
from codemode_server.domain.skills import Skill
from codemode_server.domain.tools import EFFECTS_OF_SETTINGS, Effect, UpstreamState, without_output
from codemode_server.search.documents import Findable
from codemode_server.search.ranker_stack import RankerStack, Ranking
from codemode_server.search.ranking import Scored
from codemode_server.search.relevance import above_threshold, deduplicated, unmet_subqueries
from codemode_server.search.results import DetailLevel, SearchResult, SearchResults
from codemode_server.search.words import stems
from codemode_server.support.text import counted, first_few

_RANKED_BEYOND = 20
"""Extra results that are ranked beyond the limit, since some will be merged."""
_SERVERS_NAMED = 20
_NEAREST = 3
_MAX_NAMED = 3
MAX_RESULTS = 100
_QUERY_CHARACTERS = 2_000
_NAME = re.compile(r"\w+(?:[-.]\w+)*")
SKILLS = "skills"
"""As the `server` argument: search the skills, if no server has this name."""
_GENERAL = frozenset({"mcp", "server", "api"})
"""Words in a server's name that do not identify it."""
_EFFECTS = tuple(effect for effect in Effect if effect is not Effect.UNKNOWN)
_Allowed = TypeVar("_Allowed", bound=str)


def search_tools(
    catalog: Catalog,
    rankers: RankerStack,
    query: str,
    detail_level: str = "with_description",
    server: str | None = None,
    limit: int = 10,
    effect: str | None = None,
    refusal_of: RefusalOf = no_refusal,
    skills: Set[Skill] | None = None,
    called: Set[str] = frozenset(),
) -> SearchResults:
    """The best results for a query; without a query everything, by name. `rankers` has indexed the catalog and skills;
    `skills` are those that may be found, None for all; `called` are the servers that the session has called. Raises
    `MetaToolError`: an argument is invalid."""
    if isinstance(limit, bool) or not isinstance(limit, int) or not 1 <= limit <= MAX_RESULTS:
        raise MetaToolError(f"limit must be an integer from 1 to {MAX_RESULTS}")
    level = _one_of("detail_level", get_args(DetailLevel), detail_level)
    wanted = _one_of("effect", _EFFECTS, EFFECTS_OF_SETTINGS.get(str(effect), effect)) if effect else None
    is_of_skills = server == SKILLS and SKILLS not in catalog.by_name
    try:
        only = catalog.server(_as_spelt(catalog, server)) if server and not is_of_skills else None
    except UnknownTool as error:
        raise MetaToolError(str(error)) from error
    query = query[:_QUERY_CHARACTERS].strip()
    return _Search(
        catalog, rankers, refusal_of, skills, query, level, only, is_of_skills, wanted, limit, called
    ).answer()


def _as_spelt(catalog: Catalog, server: str) -> str:
    """The server's name in the catalog if it differs only in case, else the name as given."""
    same = [name for name in catalog.by_name if name.casefold() == server.casefold()]
    return server if server in catalog.by_name or not same else same[0]


def _one_of(argument: str, allowed: Sequence[_Allowed], given: str) -> _Allowed:
    for value in allowed:
        if value == given:
            return value
    listed = ", ".join(f'"{value}"' for value in allowed)
    raise MetaToolError(f'{argument} must be one of {listed}, not "{one_line(str(given), 40)}"')


@dataclass(frozen=True, slots=True)
class _Search:
    catalog: Catalog
    rankers: RankerStack
    refusal_of: RefusalOf
    skills: Set[Skill] | None
    query: str
    """Empty: list everything."""
    detail_level: DetailLevel
    server: Server | None
    is_of_skills: bool
    effect: Effect | None
    """Filter by effect: `writes` includes `destroys`, and both include tools that state no effect."""
    limit: int
    called: Set[str]

    @property
    def within(self) -> str | None:
        if self.server is not None:
            return f"servers/{self.server.name}"
        return SKILLS if self.is_of_skills else None

    @property
    def filters(self) -> str:
        text = [f"that {self.effect}"] if self.effect else []
        text += [f"in {self.server.name}"] if self.server else []
        text += ["in skills"] if self.is_of_skills else []
        return " ".join(text)

    def answer(self) -> SearchResults:
        if everything := _asks_for_everything(self.catalog, self.query):
            server = everything if self.within is None and isinstance(everything, Server) else self.server
            return replace(self, server=server)._listed()
        filters = (self.within, self.effect, self.skills, self.called)
        ranking = self.rankers.rank(self.query, self.limit + _RANKED_BEYOND, *filters)
        resources: tuple[Resource, ...] = ()
        if not self.is_of_skills and self.effect in (None, Effect.READS):
            servers = self.catalog.servers if self.server is None else (self.server,)
            resources = _matching_resources(servers, self.query)
        marked = tuple((it, self.refusal_of(self.catalog.server(it.server), it)) for it in resources)
        return replace(self._ranked(ranking, has_resources=bool(resources)), resources=marked, task=self.query)

    def _ranked(self, ranking: Ranking, *, has_resources: bool) -> SearchResults:
        """The tools and skills; `has_resources` if resources are shown beside them."""
        catalog = self.catalog
        ranked = deduplicated(ranking.found, self._is_callable) if self.within is None else ranking.found
        worthy = _successors_first(catalog, self.query, above_threshold(self.query, ranked, ranking.level))
        best = worthy[: self.limit]
        unavailable = down = ""
        if self.within is None:
            servers = {_server_of(thing) for found in best for thing in (found.thing, *found.also)}
            unavailable = _unavailable_servers(catalog, self.query, servers)
            down = _other_servers_down(catalog, self.query)
        if not best:
            nothing = "no tool matches" if has_resources else self._nothing
            return SearchResults((), _lines(unavailable or nothing, down))
        missing = unmet_subqueries(self.query, best, self.rankers)
        what = "no tool" if has_resources else "nothing"
        doubt = _nothing_fits(missing, what, self.filters) if missing else ""
        if missing == [self.query]:
            if unavailable:
                return SearchResults((), down, unavailable)
            best = [it for it in worthy if self._is_callable(it.thing)][: min(_NEAREST, self.limit)]
            doubt += "; nearest:" if best else ""
        results = tuple(self._result(found.thing, found.also) for found in best)
        return SearchResults(results, down, _lines(unavailable, doubt))

    def _listed(self) -> SearchResults:
        """Everything that passes the filters if it fits the limit; else the names, or of many the numbers only."""
        things = self.rankers.things(self.within, self.effect, self.skills)
        every = sorted(things, key=lambda thing: (not isinstance(thing, Tool), _server_of(thing), thing.name))
        if not every:
            note = self._nothing if self.filters else "there are no tools"
            return SearchResults((), note if self.within else _lines(note, _other_servers_down(self.catalog, "")))
        level = self.detail_level if len(every) <= self.limit else "name_only"
        few = every if len(every) <= MAX_RESULTS else []
        results = tuple(replace(self, detail_level=level)._result(it) for it in few)
        place = f"/servers/{self.server.name}" if self.server else "/servers/<server>"
        how = [f'list_dir("{place}") lists their names'] if not few else []
        how += ["a search for what a task needs shows signatures"] if level != self.detail_level else []
        note = "" if self.within else _other_servers_down(self.catalog, "")
        return SearchResults(results, note, "; ".join([_census(every), *how]))

    def _result(self, thing: Findable, also: tuple[Tool, ...] = ()) -> SearchResult:
        level = self.detail_level
        server = self.catalog.by_name.get(thing.server) if isinstance(thing, Tool) else None
        if server is None or not isinstance(thing, Tool):
            return SearchResult(thing, "", level, also)
        unavailable = "" if server.availability == "connecting" else server.availability
        refusal = self.refusal_of(server, thing)
        return SearchResult(thing, unavailable, level, also, bool(self.effect), refusal)

    def _is_callable(self, tool: Findable) -> bool:
        if not isinstance(tool, Tool):
            return True
        server = self.catalog.by_name.get(tool.server)
        return server is not None and server.is_available and self.refusal_of(server, tool) is None

    @property
    def _nothing(self) -> str:
        asked = f"for {shown(self.query)}" if self.query else ""
        text = " ".join(part for part in ("nothing found", asked, self.filters) if part)
        if self.server is not None and self.server.availability and not self.server.tools:
            return f"{text}: it is {self.server.availability}"
        if self.server is not None:
            return f'{text}; list_dir("/servers/{self.server.name}") lists its tools'
        if self.is_of_skills:
            return f'{text}; list_dir("/skills") lists them'
        if not self.catalog.servers:
            return f"{text}: no server is configured"
        return f"{text}; servers: {first_few([server.name for server in self.catalog.servers], _SERVERS_NAMED)}"


def _successors_first(catalog: Catalog, query: str, ranked: Sequence[Scored]) -> list[Scored]:
    """Swaps a deprecated tool with the tool that its notice names if that ranks lower, unless the query names it."""
    ordered = list(ranked)
    for found in ranked:
        tool = found.thing
        if not isinstance(tool, Tool) or not tool.deprecation or {tool.name, tool.raw_name} & set(_NAME.findall(query)):
            continue
        others = catalog.server(tool.server).by_name
        named = [others[name] for name in _NAME.findall(tool.deprecation) if name in others and others[name] != tool]
        now = ordered.index(found)
        then = next((n for n, other in enumerate(ordered) if n > now and other.thing in named), now)
        ordered[now], ordered[then] = ordered[then], found
    return ordered


def _lines(*parts: str) -> str:
    return "\n".join(part for part in parts if part)


def _nothing_fits(missing: Sequence[str], what: str, filters: str) -> str:
    named = first_few(list(map(shown, missing)), _MAX_NAMED)
    return f"{what} fits {named} exactly" + (f" {filters}" if filters else "")


def _server_of(thing: Findable) -> str:
    return thing.server if isinstance(thing, Tool) else ""


def _unavailable_servers(catalog: Catalog, query: str, marked: Collection[str]) -> str:
    """A line with the reason for each such server, but for those of the results, which are marked there."""
    meant = [server for server in _meant(catalog, query) if server.name not in marked]
    return "\n".join(
        f"servers.{server.name} is configured but {server.availability or 'offers no tools'}"
        for server in meant[:_MAX_NAMED]
    )


def _other_servers_down(catalog: Catalog, query: str) -> str:
    """A line on the servers that are down and whose tools are not known, so that any query could mean them, without
    those that `_unavailable_servers` names; usually empty."""
    meant = _meant(catalog, query)[:_MAX_NAMED]
    down = [server for server in catalog.servers if server.is_down and not server.tools and server not in meant]
    if not down:
        return ""
    reasons = [one_line(without_output(it.listing.error or ""), 200) or "not connected" for it in down]
    named = first_few([f"{it.name} ({why})" for it, why in zip(down, reasons, strict=True)], _MAX_NAMED)
    return f"unavailable: {named}; tell the user: codemode-server test {down[0].name}"


def _meant(catalog: Catalog, query: str) -> list[Server]:
    """The servers that can't be called and that the query means: their name has a word of it, or their description and
    the name of a known tool have all of its words. Those still connecting are named in every answer anyway."""
    wanted = set(stems(query))
    found = []
    for server in catalog.servers:
        if not server.is_available or (server.state is UpstreamState.READY and not server.tools):
            described = set(stems(server.description))
            known = [_stems_of_name(name) for name in server.known_tools] or [set()]
            is_described = bool(wanted) and any(wanted <= described | name for name in known)
            if is_described or wanted & (_stems_of_name(server.raw_name) - _GENERAL):
                found.append(server)
    return found


def _stems_of_name(name: str) -> set[str]:
    return set(stems(" ".join(words(name))))


_EVERYTHING = frozenset(stems("tool everything anything"))
_KINDS = frozenset(
    stems("action api available capability catalog command connect feature function help install integration inventory")
    + stems("mcp method operation overview server service skill")
)
"""Words for tools and servers, unless the name of a tool has them: `list all servers` may mean a tool of a cloud."""
_LISTING = frozenset(
    stems("count describe display each enumerate every exist find get give know list many name offer print provide")
    + stems("search see show support tell use")
)
_ALL = re.compile(r"\b(?:all|any|each|every|which|what)\b", re.IGNORECASE)
_OF_ONE = re.compile(r"\*|\bwhat\b.*\b(?:do|does|offers?|provides?|supports?)\b", re.IGNORECASE)
_MAX_SERVERS = 40


def _asks_for_everything(catalog: Catalog, query: str) -> Server | bool:
    asked = set(stems(query))
    if not asked:
        return True
    names = {it: set(stems(it.raw_name)) for it in catalog.servers if it.tools}
    named = [it for it, own in names.items() if own and own <= asked]
    server = max(named, key=lambda it: len(it.raw_name), default=None)
    asked -= (names[server] if server else set()) - _EVERYTHING
    tools = [tool for it in catalog.servers for tool in it.tools]
    if not asked <= _EVERYTHING | _KINDS | _LISTING or any(query in (it.name, it.raw_name) for it in tools):
        return False
    if (kinds := asked & _KINDS) and any(kinds & set(stems(it.raw_name)) for it in tools):
        return False
    is_general = bool(asked & (_EVERYTHING | _KINDS))
    if server is not None:
        return server if is_general or _OF_ONE.search(query) else False
    return is_general or bool(_ALL.search(query))


def _census(things: Iterable[Findable]) -> str:
    """`30 tools on 2 servers: git 12, slack 18`, and the number of the skills."""
    found = Counter(thing.server if isinstance(thing, Tool) else "" for thing in things)
    skills = found.pop("", 0)
    where = first_few([f"{name} {count:,}" for name, count in found.items()], _MAX_SERVERS)
    text = f"{counted(found.total(), 'tool')} on {counted(len(found), 'server')}: {where}" if found else ""
    return "; ".join(part for part in (text, counted(skills, "skill") if skills else "") if part)


_MAX_RESOURCES = 3
_MAX_INDEXED_RESOURCES = 2_000
_MAX_RESOURCE_WORDS = 12
_DESCRIPTION_CHARACTERS = 400
_MIN_SHARE = 0.5
_NAME_WEIGHT = 2.0
_GENERIC = frozenset(stems("read get show open list find search resource resources template file document content"))


def _matching_resources(servers: Iterable[Server], query: str) -> tuple[Resource, ...]:
    """The resources with most of the query's words, one of them at least in name, title or URI; or with all of several
    words in the description. They have no part in the ranking of the tools."""
    asked = [stem for stem in dict.fromkeys(stems(query)) if stem not in _GENERIC][:_MAX_RESOURCE_WORDS]
    if not asked:
        return ()
    found = [match for server in servers if server.listing.resources for match in _matches(server, asked)]
    found.sort(key=lambda match: (-match[0], match[1].path))
    return tuple(resource for _, resource in found[:_MAX_RESOURCES])


def _matches(server: Server, asked: list[str]) -> Iterable[tuple[float, Resource]]:
    hits = [dict(_holders(server.resources).get(stem, ())) for stem in asked]
    for number in set[int]().union(*hits):
        found = [by_number[number] for by_number in hits if number in by_number]
        if len(found) >= _MIN_SHARE * len(asked) if any(found) else len(found) == len(asked) > 1:
            yield sum(_NAME_WEIGHT if is_named else 1.0 for is_named in found), server.resources.all[number]


@lru_cache(maxsize=100)
def _holders(resources: ServerResources) -> dict[str, list[tuple[int, bool]]]:
    """For each stem the numbers of the resources that have it, and whether their name, title or URI does."""
    found: dict[str, list[tuple[int, bool]]] = {}
    for number, resource in enumerate(resources.all[:_MAX_INDEXED_RESOURCES]):
        it = resource.definition
        named = set(stems(f"{it.name} {it.title or ''} {it.public_uri[:400]}"))
        for stem in (named | set(stems(it.description[:_DESCRIPTION_CHARACTERS]))) - _GENERIC:
            found.setdefault(stem, []).append((number, stem in named))
    return found
