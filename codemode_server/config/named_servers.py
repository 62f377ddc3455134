"""Finds settings that name servers which are not configured, so that they hold for none and protect nothing."""

from __future__ import annotations

from collections.abc import Iterable
from fnmatch import fnmatchcase

from codemode_server.catalog.labels import PRIVATE, PUBLIC_SINK, UNTRUSTED
from codemode_server.catalog.naming import Kind, name_alone, server_names
from codemode_server.config import checking
from codemode_server.config.document import Node
from codemode_server.config.problems import Problems, nearest, printable
from codemode_server.config.settings import Settings
from codemode_server.support.setting_types import NamedServer
from codemode_server.support.text import first_few

_MAX_LISTED = 10


def check_named_servers(
    all_named: Iterable[NamedServer],
    settings: Settings,
    servers: Iterable[str],
    tree: Node,
    problems: Problems,
    warnings: list[str],
) -> None:
    """Adds a problem for each protected server that does not exist, and a warning for every other name or glob that
    means none of `servers`, which are all that the file has: disabled ones and those with mistakes too. If it has none,
    there is nothing to protect."""
    names = server_names(servers)
    if not names:
        return
    spellings, by_server = spellings_of(names), [spellings_of([name]) for name in names]
    stated = (label for it in settings.servers.values() for labels in it.labels.values() for label in labels)
    known_labels = frozenset({PRIVATE, UNTRUSTED, PUBLIC_SINK, *stated})
    for named in all_named:
        node = checking.find(tree, named.place)
        meant = [it for it in by_server if _means(named.glob, it)]
        if meant and named.above and all(any(_means(it, server) for it in named.above) for server in meant):
            first = next(it for it in named.above if _means(it, meant[0]))
            message = (
                f"protects nothing, since {printable(first)!r} above it decides first; move this line above that one"
            )
            problems.add(node.line, node.where, message)
        if _means(named.glob, spellings) or (named.may_be_label and named.glob in known_labels):
            continue
        near = nearest(named.glob, names)
        if not named.must_exist:
            hint = f"; did you mean {near!r}?" if near else ""
            warnings.append(f"{problems.name}:{node.line}: {node.where}: matches no server{hint}")
            continue
        hint = f"did you mean {near!r}?" if near else f"there are {_listed(list(names))}."
        message = f"protects nothing, since no server has this name; {hint} If the server is gone, remove the line"
        problems.add(node.line, node.where, message)


def _means(glob: str, spellings: Iterable[str]) -> bool:
    return any(name == glob or fnmatchcase(name, glob) for name in spellings)


def spellings_of(servers: Iterable[str]) -> frozenset[str]:
    """The names by which settings can mean these servers: their own, and those of their Python packages."""
    names = server_names(servers)
    return frozenset({*names, *names.values(), *(name_alone(raw, Kind.SERVER) for raw in names)})


def _listed(names: list[str]) -> str:
    return first_few([*map(printable, names)], _MAX_LISTED)
