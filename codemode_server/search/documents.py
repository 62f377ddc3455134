"""Tools and skills as documents: their text fields, and the collections in which they are indexed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from codemode_server.catalog.catalog import Catalog, Tool
from codemode_server.catalog.json_schema import branches_of, enum_of, properties_of
from codemode_server.catalog.naming import words
from codemode_server.domain.skills import Skill

Findable = Tool | Skill

_MAX_DEPTH = 5
_DESCRIPTION_CHARACTERS = 4_000
_NOTES_CHARACTERS = 3_000
_ABOUT_CHARACTERS = 1_500
_PARAMETERS_NAMED = 12


@dataclass(frozen=True, eq=False)
class Collection:
    """The unit of indexing: one server with its tools, or all skills."""

    key: str
    """`servers/<Python name>`, or `skills`."""
    name: str
    """The raw name, followed by the Python name if they differ."""
    about: str
    things: tuple[Findable, ...]

    def is_same(self, other: Collection) -> bool:
        """True if an index of `other` is valid for this collection; definitions that did not change keep their
        identity."""
        return (
            (self.key, self.name, self.about) == (other.key, other.name, other.about)
            and len(self.things) == len(other.things)
            and all(map(_is_same, self.things, other.things))
        )


def collections(catalog: Catalog, skills: Sequence[Skill] = ()) -> tuple[Collection, ...]:
    found = []
    for server in catalog.servers:
        name = server.raw_name if server.raw_name == server.name else f"{server.raw_name} {server.name}"
        about = server.description[:_ABOUT_CHARACTERS]
        found.append(Collection(f"servers/{server.name}", name, about, server.tools))
    return (*found, Collection("skills", "skills", "saved programs", tuple(skills))) if skills else tuple(found)


@dataclass(frozen=True, slots=True)
class Fields:
    """The text fields of one document, bounded in length; untrusted."""

    name: str
    title: str
    summary: str
    description: str
    parameters: tuple[str, ...]
    notes: str
    values: tuple[str, ...] = ()
    """Allowed values of the parameters: what one tool can do (`start`, `restart`) is often told only there."""


def fields_of(thing: Findable) -> Fields:
    if isinstance(thing, Skill):
        return Fields(thing.name, "", thing.summary, thing.summary, (), " ".join(thing.tools))
    definition = thing.definition
    names, descriptions, values = _parameter_texts(definition.input_schema)
    return Fields(
        definition.name,
        definition.title or "",
        thing.summary,
        definition.description[:_DESCRIPTION_CHARACTERS],
        tuple(names),
        " ".join(descriptions)[:_NOTES_CHARACTERS],
        tuple(values),
    )


VECTOR_WEIGHTS = (1.0, 0.7)
"""Weights of the two texts of a document in its vector. Alone, the full text would dilute its name and summary."""


def vector_texts(collection: Collection, fields: Fields) -> tuple[str, ...]:
    """The texts of one document for an encoder: the full text, and the name with the summary."""
    name = " ".join(words(fields.name))
    parameters = f" Parameters: {', '.join(fields.parameters[:_PARAMETERS_NAMED])}" if fields.parameters else ""
    return (
        f"{collection.name}: {name}. {fields.description}{parameters}",
        f"{name.lower()}: {fields.summary}" if fields.summary else name.lower(),
    )


def collection_text(collection: Collection) -> str:
    names = ", ".join(fields_name(thing) for thing in collection.things[:200])
    return f"{collection.name}: {collection.about} {names}"[:_ABOUT_CHARACTERS]


def fields_name(thing: Findable) -> str:
    return thing.name if isinstance(thing, Skill) else thing.raw_name


def _is_same(one: Findable, other: Findable) -> bool:
    if isinstance(one, Tool) and isinstance(other, Tool):
        return one is other or (one.definition is other.definition and one.name == other.name)
    return one == other


def _parameter_texts(schema: object) -> tuple[list[str], list[str], list[str]]:
    names: list[str] = []
    descriptions: list[str] = []
    values: list[str] = []
    definitions: dict[str, Any] = {}
    if isinstance(schema, dict):
        definitions = next((schema[key] for key in ("$defs", "definitions") if isinstance(schema.get(key), dict)), {})
    level: list[object] = [schema]
    for depth in range(_MAX_DEPTH):
        inner: list[object] = []
        for one in level[:200]:
            if not isinstance(one, dict):
                continue
            if depth and isinstance(described := one.get("description"), str):
                descriptions.append(described[:600])
            values.extend(value[:100] for value in enum_of(one)[:30] if isinstance(value, str))
            names.extend(str(name)[:100] for name in properties_of(one))
            inner += properties_of(one).values()
            inner += [one.get("items"), definitions.get(str(one.get("$ref")).rpartition("/")[2])]
            inner += branches_of(one) + (one["allOf"] if isinstance(one.get("allOf"), list) else [])
        level = inner
    return names[:400], descriptions[:400], values[:400]
