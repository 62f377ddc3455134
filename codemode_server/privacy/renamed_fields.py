"""What the fields of a result are called in the data that a query has read: `who` is the `name` of a person. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import chain
from typing import NamedTuple

from codemode_server.privacy.evidence import (
    Against,
    describes_person,
    field_evidence,
    has_evidence,
    is_people_table,
    is_person_field,
    may_be_name_field,
)
from codemode_server.privacy.findings import Kind
from codemode_server.privacy.renames import ANY, Renames, Source

UNKNOWN_NAMES = ("name", "birthdate", "password")
"""What a column is taken for of which it is not known what it is."""
_MAX_STEPS = 100_000
"""From a name to another, in all; what more of them would lead to is not known."""
_MADE_NAME = re.compile(r"_*(?:c|col|column|expr|exp|f|field)?\W*\d*_*|\?column\?", re.IGNORECASE)
"""How databases call the columns that have no name."""
_NAME = re.compile(r"[^\W\d]\w*")


class Renamed(NamedTuple):
    """What stands behind the name of one field."""

    names: tuple[str, ...]
    """The names of the columns that say something about their values."""
    is_computed: bool
    """Whether values may be changed or parts of what the columns hold, so that they need not look like it."""
    is_of_person: bool | None
    """Whether a `name` among them is that of a person; None if the query does not say it."""
    against: Against | None = None
    """What the only column says against its values, if it says nothing else: that they are numbers of orders."""

    @property
    def describes_person(self) -> bool:
        return any(map(describes_person, self.names))

    @property
    def kind(self) -> Kind | None:
        """The kind that a column tells."""
        return next(filter(None, map(_kind_of, self.names)), None)


class RenamedFields:
    """Reads names of fields for the queries that a call has sent; without queries, as they are."""

    def __init__(
        self,
        renames: Renames | None = None,
        doubtful: frozenset[str] = frozenset(),
        earlier: Mapping[str, Renamed] | None = None,
        *,
        is_sure: bool = True,
        misses_earlier: bool = False,
    ) -> None:
        """`doubtful`: names in queries that were not read, for which any field of the result may stand. `earlier`: what
        earlier queries have named, in small letters. `is_sure`: whether these texts surely are queries.
        `misses_earlier`: whether `earlier` lacks some names, so that any name that nothing is known about may be one of
        a person."""
        self._renames = renames or Renames()
        self._unread = doubtful
        self._doubtful = tuple(sorted(filter(_tells, doubtful)))
        self._earlier = earlier or {}
        self._misses_earlier = misses_earlier
        self._is_sure = is_sure
        self._is_certain = is_sure and not doubtful
        self._known: dict[str, Renamed | None] = {}
        self._columns: dict[str, set[Source]] = {}
        for source in self._renames.columns_read:
            self._columns.setdefault(source.column, set()).add(source)
        self._is_on = misses_earlier or bool(self._doubtful or self._columns or self._renames.sources or self._earlier)
        self._has_people = any(map(is_people_table, {*self._renames.tables, *doubtful})) or any(
            map(describes_person, {*self._columns, *doubtful})
        )
        self._steps = 0
        self._tables: dict[str, frozenset[str]] = {}
        beside = {it.table for it in self._renames.columns_read if it.table and describes_person(it.column)}
        self._tables_of_people = frozenset(chain.from_iterable(map(self._tables_of, beside)))

    def __bool__(self) -> bool:
        return self._is_on

    def with_earlier(self, earlier: Mapping[str, Renamed], *, misses_earlier: bool) -> RenamedFields:
        """For the same queries, with what is known about earlier ones by now."""
        if misses_earlier == self._misses_earlier and (earlier is self._earlier or earlier == self._earlier):
            return self
        unread, is_sure = self._unread, self._is_sure
        return RenamedFields(self._renames, unread, earlier, is_sure=is_sure, misses_earlier=misses_earlier)

    @property
    def columns(self) -> tuple[str, ...]:
        """Those of rows that are lists."""
        return self._renames.columns

    def of(self, name: str) -> Renamed | None:
        """None if the queries say nothing about it. A value without a name may be anything that was not read."""
        if not self._is_on or not (name or self._doubtful or self._misses_earlier):
            return None
        if name not in self._known:
            self._known[name] = self._renamed(name)
        return self._known[name]

    def has_evidence(self, name: str) -> bool:
        """As `evidence.has_evidence`."""
        return has_evidence(name) or self.of(name) is not None

    def describes_person(self, name: str) -> bool:
        """As `evidence.describes_person`."""
        return describes_person(name) or ((renamed := self.of(name)) is not None and renamed.describes_person)

    def named(self) -> Iterator[tuple[str, Renamed]]:
        """What the queries have named, and what it stands for, if that is certain and says anything."""
        for name in self._renames.sources if self._is_certain else ():
            if (renamed := self.of(name)) is not None:
                yield name, renamed

    def _renamed(self, name: str) -> Renamed | None:
        key = name.strip("'\"`[] ").casefold()
        sources = self._sources_of(name, key)
        columns = {it.column for it in sources} if sources or key in self._renames.sources else {key}
        earlier = [self._earlier[it] for it in columns if it in self._earlier]
        telling = [it for it in sources if it.column == ANY or _tells(it.column)]
        of_persons = {self._is_of_person(it) for it in telling if it.column == ANY or may_be_name_field(it.column)}
        names = {it.column for it in telling}.union(self._doubtful, *(it.names for it in earlier))
        is_forgotten = self._misses_earlier and any(it not in self._earlier and not _tells(it) for it in columns)
        if is_forgotten:
            names.add(ANY)
        if ANY in names:
            names = (names - {ANY}).union(UNKNOWN_NAMES)
        if not names:
            says = field_evidence(next(iter(sources)).column) if len(sources) == 1 else None
            return Renamed((), False, None, says) if isinstance(says, Against) else None
        of_persons |= {it.is_of_person for it in earlier}
        if self._doubtful:
            of_persons.add(self._has_people or None)
        if is_forgotten:
            of_persons.add(True)
        is_of_person = True if True in of_persons else False if of_persons == {False} else None
        is_computed = is_forgotten or bool(self._doubtful) or any(it.is_computed for it in telling)
        is_computed = is_computed or any(it.is_computed for it in earlier)
        return Renamed(tuple(sorted(names)), is_computed, is_of_person)

    def _sources_of(self, name: str, key: str) -> set[Source]:
        """The columns that a field stands for, directly or by other names."""
        if key in self._renames.sources:
            waiting = [*self._renames.sources[key]]
        elif key in self._columns:
            waiting = [*self._columns[key]]
        elif _MADE_NAME.fullmatch(name):
            waiting = [*self._renames.unnamed]
        elif self._renames.unnamed and not name.isidentifier():  # an expression as the database writes it
            waiting = [Source(it.casefold(), is_computed=True) for it in _NAME.findall(name)]
        else:
            return set()
        found = set[Source]()
        while waiting:
            source = waiting.pop()
            if source not in found:
                found.add(source)
                if self._is_too_much():
                    return {Source(ANY, is_computed=True)}
                inner = self._renames.sources.get(source.column, ())
                waiting += [it._replace(is_computed=it.is_computed or source.is_computed) for it in inner]
        return found

    def _is_of_person(self, source: Source) -> bool | None:
        if not source.table:
            return self._has_people or None
        tables = self._tables_of(source.table)
        if any(map(is_people_table, tables)) or tables & self._tables_of_people:
            return True
        return False if self._has_people else None

    def _tables_of(self, name: str) -> frozenset[str]:
        """The tables that a name before a column stands for."""
        if name not in self._tables:
            found, waiting = set[str](), [name]
            while waiting and not self._is_too_much():
                one = waiting.pop()
                if one not in found:
                    found.add(one)
                    waiting += self._renames.relations.get(one, ())
            self._tables[name] = frozenset(found)
        return self._tables[name]

    def _is_too_much(self) -> bool:
        """Counts a step."""
        self._steps += 1
        return self._steps > _MAX_STEPS


def _kind_of(name: str) -> Kind | None:
    says = field_evidence(name)
    return says if isinstance(says, Kind) else None


def _tells(name: str) -> bool:
    """Whether a name of a column says what its values are, rather than what they are not."""
    return _kind_of(name) is not None or is_person_field(name) or may_be_name_field(name)


NO_RENAMES = RenamedFields()
