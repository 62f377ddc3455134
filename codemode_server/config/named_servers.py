"""Finds settings that name servers which are not configured, so that they hold for none and protect nothing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase

from codemode_server.catalog.labels import PRIVATE, PUBLIC_SINK, UNTRUSTED
from codemode_server.catalog.naming import Kind, name_alone, server_names
from codemode_server.config import checking
from codemode_server.config.document import Node
from codemode_server.config.problems import Problems, nearest, printable
from codemode_server.config.settings import Settings
from codemode_server.support.text import first_few

_MAX_LISTED = 10
_GLOB_MARKS = frozenset("*?[")


@dataclass(frozen=True, slots=True)
class _Named:
    place: checking.KeyPath
    glob: str
    labels: frozenset[str] = frozenset()
    """Labels that it may name as well."""
    must_exist: bool = False
    """True if a name that no server has is an error: it would leave data unprotected."""


def check_named_servers(
    settings: Settings, servers: Iterable[str], tree: Node, problems: Problems, warnings: list[str]
) -> None:
    """Adds a problem for each protected server that does not exist, and a warning for every other name or glob that
    means none of `servers`, which are all that the file has: disabled ones and those with mistakes too. If it has none,
    there is nothing to protect."""
    names = server_names(servers)
    if not names:
        return
    spellings = spellings_of(names)
    _check_order(settings, names, tree, problems)
    for named in _named_in(settings):
        if named.glob in named.labels or _means(named.glob, spellings):
            continue
        node = checking.find(tree, named.place)
        meant = nearest(named.glob, names)
        if not named.must_exist:
            hint = f"; did you mean {meant!r}?" if meant else ""
            warnings.append(f"{problems.name}:{node.line}: {node.where}: matches no server{hint}")
            continue
        hint = f"did you mean {meant!r}?" if meant else f"there are {_listed(list(names))}."
        message = f"protects nothing, since no server has this name; {hint} If the server is gone, remove the line"
        problems.add(node.line, node.where, message)


def _check_order(settings: Settings, names: Iterable[str], tree: Node, problems: Problems) -> None:
    """Adds a problem for what protects no server since a glob above it, with `values`, decides on all that it means."""
    by_server = [spellings_of([name]) for name in names]
    above: list[str] = []
    for glob, mode in settings.privacy.servers.items():
        if mode == "values":
            above.append(glob)
            continue
        meant = [spellings for spellings in by_server if _means(glob, spellings)]
        if meant and all(any(_means(it, spellings) for it in above) for spellings in meant):
            node = checking.find(tree, ("privacy", "servers", glob))
            first = next(it for it in above if _means(it, meant[0]))
            message = (
                f"protects nothing, since {printable(first)!r} above it decides first; move this line above that one"
            )
            problems.add(node.line, node.where, message)


def _means(glob: str, spellings: Iterable[str]) -> bool:
    return any(name == glob or fnmatchcase(name, glob) for name in spellings)


def spellings_of(servers: Iterable[str]) -> frozenset[str]:
    """The names by which settings can mean these servers: their own, and those of their Python packages."""
    names = server_names(servers)
    return frozenset({*names, *names.values(), *(name_alone(raw, Kind.SERVER) for raw in names)})


def _named_in(settings: Settings) -> Iterator[_Named]:
    for index, rule in enumerate(settings.permissions.rules):
        yield _Named(("permissions", "rules", index, rule.answer), rule.globs[0])
    stated = (label for it in settings.servers.values() for labels in it.labels.values() for label in labels)
    labels = frozenset({PRIVATE, UNTRUSTED, PUBLIC_SINK, *stated})
    for index, flow in enumerate(settings.permissions.flows.rules):
        for key, pattern in (("from", flow.source), ("to", flow.to)):
            server, slash, _ = pattern.partition("/")
            yield _Named(("permissions", "flows", "rules", index, key), server, frozenset() if slash else labels)
    for index, guardrail in enumerate(settings.guardrails):
        for at, glob in enumerate(guardrail.tools):
            yield _Named(("guardrails", index, "tools", at), glob.partition("/")[0])
    for glob, mode in settings.privacy.servers.items():
        must_exist = mode != "values" and _GLOB_MARKS.isdisjoint(glob)
        yield _Named(("privacy", "servers", glob), glob, must_exist=must_exist)
    for glob in settings.privacy.release:
        yield _Named(("privacy", "release", glob), glob.partition("/")[0])


def _listed(names: list[str]) -> str:
    return first_few([*map(printable, names)], _MAX_LISTED)
