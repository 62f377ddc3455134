"""Tools and skills as documents: their text fields, and the collections in which they are indexed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from codemode_server.catalog.catalog import Catalog, Tool
from codemode_server.catalog.naming import words
from codemode_server.catalog.untrusted import first_sentence
from codemode_server.domain.skills import Skill

Findable = Tool | Skill

_NESTED = 2
_DESCRIPTION_CHARACTERS = 4_000
_NOTES_CHARACTERS = 3_000
_ABOUT_CHARACTERS = 1_500
_PARAMETERS_NAMED = 12
_SENTENCE_CHARACTERS = 160


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
        """True if an index of `other` is valid for this collection. Unchanged definitions keep their identity; the tool
        around one may be a new object because its observed types changed."""
        return (
            (self.key, self.name, self.about) == (other.key, other.name, other.about)
            and len(self.things) == len(other.things)
            and all(map(_is_same, self.things, other.things))
        )


def collections(catalog: Catalog, skills: Sequence[Skill] = ()) -> tuple[Collection, ...]:
    """All collections, in a fixed order."""
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
    description: str
    parameters: tuple[str, ...]
    """Names of the parameters and of their nested properties."""
    notes: str
    """Descriptions of the parameters and their allowed values."""


def fields_of(thing: Findable) -> Fields:
    if isinstance(thing, Skill):
        return Fields(thing.name, "", thing.summary, (), " ".join(thing.tools))
    definition = thing.definition
    names, notes = _parameter_texts(definition.input_schema)
    return Fields(
        definition.name,
        definition.title or "",
        definition.description[:_DESCRIPTION_CHARACTERS],
        names,
        " ".join(notes)[:_NOTES_CHARACTERS],
    )


VECTOR_WEIGHTS = (1.0, 0.7)
"""Weights of the two texts of a document in its vector. Alone, the full text would dilute its name and summary."""


def vector_texts(collection: Collection, fields: Fields) -> tuple[str, ...]:
    """The texts of one document for an encoder: the full text, and the name with the first sentence."""
    name = " ".join(words(fields.name))
    parameters = f" Parameters: {', '.join(fields.parameters[:_PARAMETERS_NAMED])}" if fields.parameters else ""
    sentence = first_sentence(fields.description, _SENTENCE_CHARACTERS)
    return (
        f"{collection.name}: {name}. {fields.description}{parameters}",
        f"{name.lower()}: {sentence}" if sentence else name.lower(),
    )


def collection_text(collection: Collection) -> str:
    """The text of a collection for an encoder."""
    names = ", ".join(fields_name(thing) for thing in collection.things[:200])
    return f"{collection.name}: {collection.about} {names}"[:_ABOUT_CHARACTERS]


def fields_name(thing: Findable) -> str:
    """The raw name of a tool, or the name of a skill."""
    return thing.name if isinstance(thing, Skill) else thing.raw_name


def _is_same(one: Findable, other: Findable) -> bool:
    if isinstance(one, Tool) and isinstance(other, Tool):
        return one is other or (one.definition is other.definition and one.name == other.name)
    return one == other


def _parameter_texts(schema: object) -> tuple[tuple[str, ...], list[str]]:
    names: list[str] = []
    notes: list[str] = []
    level = [schema]
    for _ in range(1 + _NESTED):
        inner: list[object] = []
        for one in level[:200]:
            properties = one.get("properties") if isinstance(one, dict) else None
            if not isinstance(properties, dict):
                continue
            for name, schema in properties.items():
                names.append(str(name)[:100])
                if isinstance(schema, dict):
                    notes += [text[:600] for text in _notes(schema)]
                    inner += [schema, schema.get("items")]
        level = inner
    return tuple(names[:400]), notes[:400]


def _notes(schema: dict[str, Any]) -> Iterator[str]:
    description, values = schema.get("description"), schema.get("enum")
    if isinstance(description, str):
        yield description
    if isinstance(values, list):
        yield " ".join(value for value in values[:30] if isinstance(value, str))
