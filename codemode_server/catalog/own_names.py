"""The names that texts of the product have, and their words: those of the catalog, of Python and of the product itself.

No known value of an upstream stands in place of them.
"""

from __future__ import annotations

import keyword

from codemode_server.catalog.catalog import Catalog, Server
from codemode_server.catalog.stored_results import stored_in_value
from codemode_server.known_values import words_of

_BUILT_IN = "str int float bool list dict tuple Any Literal NotRequired TypedDict File Resources tool server servers"
_PRODUCT = (
    "tools skill skills workflow workflows workspace resource resources result results call calls called codemode"
)
_NAMES = frozenset(map(str.lower, (*keyword.kwlist, *_BUILT_IN.split(), *_PRODUCT.split())))


def names_and_words(catalog: Catalog) -> frozenset[str]:
    """Those of all servers, in small letters."""
    return _NAMES.union(*map(_collect_names, catalog.servers))


def names_and_words_of(server: Server) -> frozenset[str]:
    """Those of one server, in small letters."""
    return _NAMES | _collect_names(server)


@stored_in_value
def _collect_names(server: Server) -> frozenset[str]:
    names = [server.name, server.raw_name]
    for tool in server.tools:
        names += (tool.name, tool.raw_name, f"{server.name}.{tool.name}", f"{server.raw_name}/{tool.raw_name}")
        names += (name for parameter in tool.parameters for name in (parameter.name, parameter.raw_name))
    return frozenset((*map(str.lower, names), *words_of(" ".join(names))))
