"""What `search_tools` says: which of the ranked things are shown, and what is told beside them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from codemode_server.catalog.catalog import Catalog, Server, Tool
from codemode_server.catalog.untrusted import first_sentence, one_line
from codemode_server.search.deduplication import Folded, folded
from codemode_server.search.documents import Findable
from codemode_server.search.missing_words import doubtful_clauses, missing_words
from codemode_server.search.question import Question
from codemode_server.search.ranker_stack import RankerStack, Ranking
from codemode_server.search.ranking import Scored
from codemode_server.search.results import Found, SearchResults
from codemode_server.search.siblings import siblings
from codemode_server.search.thresholds import unmet, worth_showing
from codemode_server.search.unavailable import unavailable_servers

_RANKED_BEYOND = 20
"""Things that are ranked beyond the limit, since some will be folded."""
_WEAK_SHOWN = 3
"""Results where nothing fits."""
_SERVERS_NAMED = 20
_NEAREST = 3
_WANTS_NAMED = 3
_NAME = re.compile(r"\w+(?:[-.]\w+)*")
"""The name of a tool, Python's or raw, in a text."""


def search_tools(
    catalog: Catalog,
    levels: RankerStack,
    query: str,
    detail_level: str = "with_description",
    server: str | None = None,
    limit: int = 10,
    effect: str | None = None,
) -> SearchResults:
    """What fits a query best; without a query everything, by name. The levels have indexed the catalog and the skills.

    Raises:
        MetaToolError: an argument is not what it may be.
    """
    question = Question.of(catalog, query, detail_level, server, limit, effect)
    if not question.query:
        return _listed(catalog, levels, question)
    ranking = levels.rank(
        question.query, question.limit + _RANKED_BEYOND, within=question.within, effect=question.effect
    )
    return _answer(catalog, levels, question, ranking)


def _answer(catalog: Catalog, levels: RankerStack, question: Question, ranking: Ranking) -> SearchResults:
    if question.within is None:
        available = {server.name: server.is_available for server in catalog.servers}
        places = folded(ranking.found, lambda tool: available.get(tool.server, False))
    else:
        places = [Folded(scored) for scored in ranking.found]
    worthy = worth_showing(question.query, places, ranking.level)
    places = _successors_first(catalog, question.query, worthy)[: question.limit]
    things = [thing for place in places for thing in (place.best.thing, *place.also)]
    servers = set(map(_server_of, things))
    unavailable = "" if question.within else unavailable_servers(catalog, question.query, servers)
    if not places:
        return SearchResults((), unavailable or _nothing(catalog, question))
    shown = [place.best.thing for place in places]
    doubtful = doubtful_clauses(question.query, levels.meanings, levels.has)
    missing = unmet(question.query, shown, levels.rarities, levels.size, doubtful)
    doubt = ""
    if missing == [question.query]:
        places = sorted(places, key=_is_refused)[:_WEAK_SHOWN]
        if not unavailable:
            doubt = _nothing_fits([question.query], _filters(question))
            if question.within is None:
                doubt += f"; nearest: {_nearest(catalog, places)}"
    elif missing:
        doubt = _nothing_fits(missing, _filters(question))
    else:
        doubt = missing_words(question.query, things, levels.meanings, levels.has)
    doubt = "\n".join(part for part in (unavailable, doubt) if part)
    return SearchResults(
        _found(catalog, question, places), "" if doubt else _siblings(catalog, question, places), doubt
    )


def _successors_first(catalog: Catalog, query: str, places: Sequence[Folded]) -> list[Folded]:
    """The places, where a deprecated tool changes places with the one that it names for use instead if that one is
    behind it; a tool that the query names stays first."""
    asked = set(_NAME.findall(query))
    ordered = list(places)
    for place in places:
        tool = place.best.thing
        if not isinstance(tool, Tool) or not tool.deprecation or {tool.name, tool.raw_name} & asked:
            continue
        others = catalog.server(tool.server).by_name
        named = [others[name] for name in _NAME.findall(tool.deprecation) if name in others and others[name] != tool]
        now = ordered.index(place)
        then = next((n for n, other in enumerate(ordered) if n > now and other.best.thing in named), now)
        ordered[now], ordered[then] = ordered[then], place
    return ordered


def _siblings(catalog: Catalog, question: Question, places: Sequence[Folded]) -> str:
    """Names of other tools of the best result's server that a program is likely to need."""
    best = places[0].best.thing
    if not isinstance(best, Tool) or question.detail_level != "with_description":
        return ""
    shown = [place.best.thing for place in places]
    server = catalog.server(best.server)
    found = siblings(server, best, (thing for thing in shown if isinstance(thing, Tool)))
    if not found:
        return ""
    more = ", …" if len(server.tools) > len(shown) + len(found) else ""
    return f"also in {server.name}: {', '.join(tool.name for tool in found)}{more}"


def _listed(catalog: Catalog, levels: RankerStack, question: Question) -> SearchResults:
    """By server and name, skills last."""
    every = sorted(levels.things(within=question.within, effect=question.effect), key=_place)
    shown = every[: question.limit]
    note = f"{len(every) - len(shown):,} more; list_dir lists them by server" if len(every) > len(shown) else ""
    if not shown:
        note = _nothing(catalog, question) if _filters(question) else "there are no tools"
    return SearchResults(_found(catalog, question, [Folded(Scored(thing, 0.0)) for thing in shown]), note)


def _place(thing: Findable) -> tuple[bool, str, str]:
    return (not isinstance(thing, Tool), _server_of(thing), thing.name)


def _found(catalog: Catalog, question: Question, places: Iterable[Folded]) -> tuple[Found, ...]:
    return tuple(_found_one(catalog, question, place) for place in places)


def _found_one(catalog: Catalog, question: Question, place: Folded) -> Found:
    thing = place.best.thing
    server = catalog.by_name.get(thing.server) if isinstance(thing, Tool) else None
    if server is None:
        return Found(thing, "", question.detail_level, place.also)
    return Found(
        thing,
        _mark(server.availability),
        question.detail_level,
        place.also,
        server.usual_parameters,
        bool(question.effect),
    )


def _mark(reason: str) -> str:
    return "" if reason == "connecting" else reason


def _is_refused(place: Folded) -> bool:
    return isinstance(place.best.thing, Tool) and bool(place.best.thing.refusal)


def _nothing_fits(missing: Sequence[str], narrowed: str) -> str:
    named = ", ".join(_quoted(want) for want in missing[:_WANTS_NAMED])
    more = f" and {len(missing) - _WANTS_NAMED} more" if len(missing) > _WANTS_NAMED else ""
    return f"nothing fits {named}{more} well" + (f" {narrowed}" if narrowed else "")


def _nearest(catalog: Catalog, places: Sequence[Folded]) -> str:
    """The servers of the weak results, each with what it is for."""
    names = dict.fromkeys(_server_of(place.best.thing) for place in places)
    servers = [server for name in names if (server := catalog.by_name.get(name))][:_NEAREST]
    return ", ".join(f"servers.{server.name}{_purpose(server)}" for server in servers) or "skills"


def _server_of(thing: Findable) -> str:
    return thing.server if isinstance(thing, Tool) else ""


def _purpose(server: Server) -> str:
    said = first_sentence(server.summary, 60)
    return f" ({said})" if said else ""


def _filters(question: Question) -> str:
    """What narrows the search, in words."""
    said = [f"that {question.effect}"] if question.effect else []
    said += [f"in {question.server.name}"] if question.server else []
    said += ["in skills"] if question.is_of_skills else []
    return " ".join(said)


def _nothing(catalog: Catalog, question: Question) -> str:
    narrowed = f" {_filters(question)}" if _filters(question) else ""
    said = f"nothing found{f' for {_quoted(question.query)}' if question.query else ''}{narrowed}"
    if question.server is not None and question.server.availability and not question.server.tools:
        return f"{said}: it is {question.server.availability}"
    if question.server is not None:
        return f'{said}; list_dir("/servers/{question.server.name}") lists its tools'
    if question.is_of_skills:
        return f'{said}; list_dir("/skills") lists them'
    if not catalog.servers:
        return f"{said}: no server is configured"
    names = [server.name for server in catalog.servers]
    more = f" and {len(names) - _SERVERS_NAMED:,} more" if len(names) > _SERVERS_NAMED else ""
    return f"{said}; servers: {', '.join(names[:_SERVERS_NAMED])}{more}"


def _quoted(text: str) -> str:
    return f'"{one_line(text, 80)}"'
