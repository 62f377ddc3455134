"""Validates the arguments of `search_tools`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from codemode_server.catalog.catalog import Catalog, Server
from codemode_server.catalog.untrusted import one_line
from codemode_server.domain.errors import MetaToolError, UnknownTool
from codemode_server.domain.tools import Effect

DetailLevel = Literal["name_only", "with_description", "full", "scaffold"]
MAX_RESULTS = 100
SKILLS = "skills"
"""As the `server` argument: search the skills, if no server has this name."""
_QUERY_CHARACTERS = 2_000


@dataclass(frozen=True, slots=True)
class Question:
    """The validated arguments of one search."""

    query: str
    """Empty: list everything."""
    detail_level: DetailLevel = "with_description"
    server: Server | None = None
    """Only its tools."""
    is_of_skills: bool = False
    effect: Effect | None = None
    """Filter by effect: `writes` includes `destroys`, and both include tools that state no effect."""
    limit: int = 10

    @classmethod
    def of(
        cls,
        catalog: Catalog,
        query: str,
        detail_level: str = "with_description",
        server: str | None = None,
        limit: int = 10,
        effect: str | None = None,
    ) -> Question:
        """Validates the arguments.

        Raises:
            MetaToolError: an argument is invalid.
        """
        if isinstance(limit, bool) or not isinstance(limit, int) or not 1 <= limit <= MAX_RESULTS:
            raise MetaToolError(f"limit must be an integer from 1 to {MAX_RESULTS}")
        level = _level(detail_level)
        claimed = _effect(effect)
        is_of_skills = server == SKILLS and SKILLS not in catalog.by_name
        try:
            only = catalog.server(_as_spelt(catalog, server)) if server and not is_of_skills else None
        except UnknownTool as error:
            raise MetaToolError(str(error)) from error
        return cls(query[:_QUERY_CHARACTERS].strip(), level, only, is_of_skills, claimed, limit)

    @property
    def within(self) -> str | None:
        """The key of the collection to search; None for all."""
        if self.server is not None:
            return f"servers/{self.server.name}"
        return SKILLS if self.is_of_skills else None


def _as_spelt(catalog: Catalog, server: str) -> str:
    """The server's name in the catalog if it differs only in case, else the name as given."""
    same = [name for name in catalog.by_name if name.casefold() == server.casefold()]
    return server if server in catalog.by_name or not same else same[0]


def _level(detail_level: str) -> DetailLevel:
    for level in get_args(DetailLevel):
        if detail_level == level:
            found: DetailLevel = level
            return found
    raise MetaToolError(_no_such("detail_level", get_args(DetailLevel), detail_level))


def _effect(effect: str | None) -> Effect | None:
    if not effect:
        return None
    for one in Effect:
        if effect == one and one is not Effect.UNKNOWN:
            return one
    raise MetaToolError(_no_such("effect", [one for one in Effect if one is not Effect.UNKNOWN], effect))


def _no_such(argument: str, allowed: tuple[str, ...] | list[Effect], given: object) -> str:
    listed = ", ".join(f'"{one}"' for one in allowed)
    return f'{argument} must be one of {listed}, not "{one_line(str(given), 40)}"'
