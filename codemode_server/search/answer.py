"""Answers `search_tools`: selects the ranked results to show and the message that goes with them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence, Set
from dataclasses import replace

from codemode_server.catalog.catalog import Catalog, RefusalOf, Server, Tool, no_refusal
from codemode_server.catalog.untrusted import first_sentence, one_line
from codemode_server.domain.skills import Skill
from codemode_server.domain.tools import Effect
from codemode_server.search.deduplication import ResultGroup, deduplicated
from codemode_server.search.documents import Findable
from codemode_server.search.matching_resources import matching_resources
from codemode_server.search.question import Question
from codemode_server.search.ranker_stack import RankerStack, Ranking
from codemode_server.search.ranking import Scored
from codemode_server.search.results import SearchResult, SearchResults
from codemode_server.search.thresholds import above_threshold, unmet_subqueries
from codemode_server.search.unavailable import other_servers_down, unavailable_servers

_RANKED_BEYOND = 20
"""Extra results that are ranked beyond the limit, since some will be merged."""
_WEAK_SHOWN = 3
"""Number of results shown if nothing fits."""
_SERVERS_NAMED = 20
_NEAREST = 3
_SUBQUERIES_NAMED = 3
_NAME = re.compile(r"\w+(?:[-.]\w+)*")
"""Matches the Python name or raw name of a tool in a text."""


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
) -> SearchResults:
    """The best results for a query; without a query everything, by name. `rankers` has indexed the catalog and skills;
    `skills` are those that may be found, None for all.

    Raises:
        MetaToolError: an argument is invalid.
    """
    question = Question.of(catalog, query, detail_level, server, limit, effect)
    if not question.query:
        every = rankers.things(within=question.within, effect=question.effect, skills=skills)
        return _listed(catalog, every, question, refusal_of)
    ranking = rankers.rank(
        question.query, question.limit + _RANKED_BEYOND, within=question.within, effect=question.effect, skills=skills
    )
    if question.is_of_skills or question.effect not in (None, Effect.READS):
        return replace(_answer(catalog, rankers, question, ranking, refusal_of), task=question.query)
    servers = catalog.servers if question.server is None else (question.server,)
    resources = matching_resources(servers, question.query)
    answer = _answer(catalog, rankers, question, ranking, refusal_of, has_resources=bool(resources))
    with_refusals = tuple((resource, refusal_of(catalog.server(resource.server), resource)) for resource in resources)
    return replace(answer, resources=with_refusals, task=question.query)


def _answer(
    catalog: Catalog,
    rankers: RankerStack,
    question: Question,
    ranking: Ranking,
    refusal_of: RefusalOf,
    *,
    has_resources: bool = False,
) -> SearchResults:
    """The tools and skills; `has_resources` if resources are shown beside them."""

    def is_callable(tool: Tool) -> bool:
        server = catalog.by_name.get(tool.server)
        return server is not None and server.is_available and refusal_of(server, tool) is None

    if question.within is None:
        groups = deduplicated(ranking.found, is_callable)
    else:
        groups = [ResultGroup(scored) for scored in ranking.found]
    worthy = above_threshold(question.query, groups, ranking.level)
    worthy = _successors_first(catalog, question.query, worthy)
    groups = worthy[: question.limit]
    servers = {_server_of(thing) for group in groups for thing in (group.best.thing, *group.also)}
    unavailable = "" if question.within else unavailable_servers(catalog, question.query, servers)
    down = "" if question.within else other_servers_down(catalog, question.query)
    if not groups:
        nothing = "no tool matches" if has_resources else _nothing(catalog, question)
        return SearchResults((), _lines(unavailable or nothing, down))
    shown = [group.best.thing for group in groups]
    missing = unmet_subqueries(question.query, shown, rankers.rarities, rankers.size)
    doubt = ""
    if missing == [question.query]:
        groups = _callable_first(worthy, is_callable)[: min(_WEAK_SHOWN, question.limit)]
        if not unavailable:
            doubt = _nothing_fits([question.query], _filters(question))
            if has_resources:
                doubt = doubt.replace("nothing fits", "no tool fits", 1)
            elif question.within is None:
                doubt += f"; nearest: {_nearest(catalog, groups)}"
    elif missing:
        doubt = _nothing_fits(missing, _filters(question))
    return SearchResults(_found(catalog, question, groups, refusal_of), down, _lines(unavailable, doubt))


def _lines(*parts: str) -> str:
    return "\n".join(part for part in parts if part)


def _successors_first(catalog: Catalog, query: str, groups: Sequence[ResultGroup]) -> list[ResultGroup]:
    """Swaps a deprecated tool with its successor if the successor ranks lower.

    The successor is the tool that the deprecation notice names. A deprecated tool that the query names stays."""
    asked = set(_NAME.findall(query))
    ordered = list(groups)
    for group in groups:
        tool = group.best.thing
        if not isinstance(tool, Tool) or not tool.deprecation or {tool.name, tool.raw_name} & asked:
            continue
        others = catalog.server(tool.server).by_name
        named = [others[name] for name in _NAME.findall(tool.deprecation) if name in others and others[name] != tool]
        now = ordered.index(group)
        then = next((n for n, other in enumerate(ordered) if n > now and other.best.thing in named), now)
        ordered[now], ordered[then] = ordered[then], group
    return ordered


def _listed(catalog: Catalog, things: list[Findable], question: Question, refusal_of: RefusalOf) -> SearchResults:
    """All tools by server and name, then the skills."""
    every = sorted(things, key=_sort_key)
    shown = every[: question.limit]
    note = f"{len(every) - len(shown):,} more; list_dir lists them by server" if len(every) > len(shown) else ""
    if not shown:
        note = _nothing(catalog, question) if _filters(question) else "there are no tools"
    note = note if question.within else _lines(note, other_servers_down(catalog, ""))
    groups = [ResultGroup(Scored(thing, 0.0)) for thing in shown]
    return SearchResults(_found(catalog, question, groups, refusal_of), note)


def _sort_key(thing: Findable) -> tuple[bool, str, str]:
    return (not isinstance(thing, Tool), _server_of(thing), thing.name)


def _found(
    catalog: Catalog, question: Question, groups: Iterable[ResultGroup], refusal_of: RefusalOf
) -> tuple[SearchResult, ...]:
    return tuple(_found_one(catalog, question, group, refusal_of) for group in groups)


def _found_one(catalog: Catalog, question: Question, group: ResultGroup, refusal_of: RefusalOf) -> SearchResult:
    thing = group.best.thing
    server = catalog.by_name.get(thing.server) if isinstance(thing, Tool) else None
    if server is None or not isinstance(thing, Tool):
        return SearchResult(thing, "", question.detail_level, group.also)
    return SearchResult(
        thing,
        _mark(server.availability),
        question.detail_level,
        group.also,
        server.usual_parameters,
        bool(question.effect),
        refusal_of(server, thing),
    )


def _mark(reason: str) -> str:
    return "" if reason == "connecting" else reason


def _callable_first(groups: Sequence[ResultGroup], is_callable: Callable[[Tool], bool]) -> list[ResultGroup]:
    """The order for weak results: one that can't be called is no suggestion."""
    return sorted(groups, key=lambda group: isinstance(group.best.thing, Tool) and not is_callable(group.best.thing))


def _nothing_fits(missing: Sequence[str], filters: str) -> str:
    named = ", ".join(_quoted(subquery) for subquery in missing[:_SUBQUERIES_NAMED])
    more = f" and {len(missing) - _SUBQUERIES_NAMED} more" if len(missing) > _SUBQUERIES_NAMED else ""
    return f"nothing fits {named}{more} well" + (f" {filters}" if filters else "")


def _nearest(catalog: Catalog, groups: Sequence[ResultGroup]) -> str:
    """The servers of weak results, each with its purpose."""
    names = dict.fromkeys(_server_of(group.best.thing) for group in groups)
    servers = [server for name in names if (server := catalog.by_name.get(name))][:_NEAREST]
    return ", ".join(f"servers.{server.name}{_purpose(server)}" for server in servers) or "skills"


def _server_of(thing: Findable) -> str:
    return thing.server if isinstance(thing, Tool) else ""


def _purpose(server: Server) -> str:
    text = first_sentence(server.summary, 60)
    return f" ({text})" if text else ""


def _filters(question: Question) -> str:
    """The filters of the search, in words."""
    text = [f"that {question.effect}"] if question.effect else []
    text += [f"in {question.server.name}"] if question.server else []
    text += ["in skills"] if question.is_of_skills else []
    return " ".join(text)


def _nothing(catalog: Catalog, question: Question) -> str:
    filters = f" {_filters(question)}" if _filters(question) else ""
    text = f"nothing found{f' for {_quoted(question.query)}' if question.query else ''}{filters}"
    if question.server is not None and question.server.availability and not question.server.tools:
        return f"{text}: it is {question.server.availability}"
    if question.server is not None:
        return f'{text}; list_dir("/servers/{question.server.name}") lists its tools'
    if question.is_of_skills:
        return f'{text}; list_dir("/skills") lists them'
    if not catalog.servers:
        return f"{text}: no server is configured"
    names = [server.name for server in catalog.servers]
    more = f" and {len(names) - _SERVERS_NAMED:,} more" if len(names) > _SERVERS_NAMED else ""
    return f"{text}; servers: {', '.join(names[:_SERVERS_NAMED])}{more}"


def _quoted(text: str) -> str:
    return f'"{one_line(text, 80)}"'
