"""Groups the tools of a large server by topic, from the words that their names share: `issue`, `pull request`.

Pure, and independent of the order of names. A topic is the object of the tools: the first word of a name that is not a
verb, or more words if all tools of the topic share them. A large topic is split by the next word.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from codemode_server.catalog.naming import words

LARGE = 30
"""Number of tools from which a server is shown by topic."""
_MIN_TOOLS = 3
"""Minimum number of tools of a topic."""
_MAX_TOOLS = 20
"""Number of tools above which a topic is split, if possible."""
_SHARED = 0.6
"""A word in a larger share of all names is ignored; usually the server's own name."""
_GROUPED = 0.5
"""Minimum share of tools that must have a topic; below it the server is listed without topics."""
_MAX_WORDS = 12
_MAX_ROUNDS = 100
"""Maximum number of topics searched among names without a common first word."""

_Words = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Topic:
    """Tools on the same topic."""

    name: str
    """In words: `pull request`; `others` for tools without a topic."""
    tools: tuple[str, ...]
    """Python names, sorted."""

    @property
    def key(self) -> str:
        """The name as part of a path."""
        return self.name.replace(" ", "_")


def topics_of(names: Mapping[str, str]) -> tuple[Topic, ...]:
    """The topics by name, then `others`; `names` maps Python names of tools to raw names.

    Empty if the names share too few words.
    """
    said = {tool: _name_words(raw) for tool, raw in sorted(names.items())}
    objects = _objects(said)
    groups: dict[_Words, list[str]] = {}
    for tool, things in objects.items():
        groups.setdefault(things[:1], []).append(tool)
    rest = groups.pop((), [])
    for key in sorted(groups, key=lambda key: (len(groups[key]), key)):
        if len(groups[key]) < _MIN_TOOLS or _is_verb(groups[key], objects, groups):
            rest += groups.pop(key)
    rest = _joined(rest, objects, groups)
    found = [topic for key, tools in groups.items() for topic in _split(key, tools, objects)]
    if 1 - len(rest) / max(1, len(names)) < _GROUPED or len(found) == 1:
        return ()
    written = _spellings(said)
    topics = sorted(
        (Topic(" ".join(written[word] for word in key), tuple(sorted(tools))) for key, tools in found),
        key=lambda topic: topic.name,
    )
    return (*topics, Topic("others", tuple(sorted(rest)))) if rest else tuple(topics)


def _is_verb(tools: list[str], objects: Mapping[str, _Words], groups: Mapping[_Words, list[str]]) -> bool:
    """Whether the common first word of these tools is a verb: different objects follow it in all of them."""
    things = {
        next((word for word in objects[tool][1:] if len(groups.get((word,), ())) >= _MIN_TOOLS), "") for tool in tools
    }
    return len(things) > 1 and "" not in things


def _joined(rest: list[str], objects: Mapping[str, _Words], groups: dict[_Words, list[str]]) -> list[str]:
    """The tools left without a topic after adding each to a topic that it names later in its name, or to a new one."""
    left = []
    for tool in rest:
        known = next(((word,) for word in reversed(objects[tool]) if (word,) in groups), None)
        if known is None:
            left.append(tool)
        else:
            groups[known].append(tool)
    for _ in range(_MAX_ROUNDS):
        counts = Counter(word for tool in left for word in set(objects[tool]))
        word, count = min(counts.items(), key=lambda item: (-item[1], item[0]), default=("", 0))
        if count < _MIN_TOOLS:
            break
        groups[word,] = [tool for tool in left if word in objects[tool]]
        left = [tool for tool in left if word not in objects[tool]]
    begin = Counter(objects[tool][:1] for tool in left)
    for tool in left:
        if objects[tool] and begin[objects[tool][:1]] > 1:  # at least two with this first word
            groups.setdefault(objects[tool][:1], []).append(tool)
    return [tool for tool in left if not objects[tool] or begin[objects[tool][:1]] == 1]


def _split(key: _Words, tools: list[str], objects: Mapping[str, _Words]) -> list[tuple[_Words, list[str]]]:
    """One topic, or several if it is large and the following words distinguish its tools."""
    begin = [objects[tool] for tool in tools if objects[tool][: len(key)] == key]
    while (
        len(begin) == len(tools) and len({found[: len(key) + 1] for found in begin}) == 1 and len(begin[0]) > len(key)
    ):
        key = begin[0][: len(key) + 1]
    if len(tools) <= _MAX_TOOLS:
        return [(key, tools)]
    inner: dict[_Words, list[str]] = {}
    for tool in tools:
        found = objects[tool]
        inner.setdefault(found[: len(key) + 1] if found[: len(key)] == key else key, []).append(tool)
    own = inner.pop(key, [])
    topics: list[tuple[_Words, list[str]]] = []
    for longer, some in inner.items():
        if len(some) < _MIN_TOOLS or len(some) == len(tools):
            own += some
        else:
            topics += _split(longer, some, objects)
    return [*topics, (key, own)] if own else topics


def _name_words(raw: str) -> tuple[str, ...]:
    return tuple(word.lower() for word in words(raw[:200])[:_MAX_WORDS])


def _objects(said: Mapping[str, tuple[str, ...]]) -> dict[str, _Words]:
    """The nouns in the name of each tool, in singular and in order."""
    singular = {tool: [singular_of(word) for word in found] for tool, found in said.items()}
    counts = Counter(word for found in singular.values() for word in set(found))
    common = {word for word, count in counts.items() if count > _SHARED * len(said)}
    return {
        tool: _nouns([word for word in found if word not in common and word not in _SMALL and len(word) > 1])
        for tool, found in singular.items()
    }


def _spellings(said: Mapping[str, tuple[str, ...]]) -> dict[str, str]:
    """Singular → its shortest spelling in the names, since `postgres` is not a plural."""
    written: dict[str, str] = {}
    for found in said.values():
        for word in found:
            one = singular_of(word)
            written[one] = min(written.get(one, word), word, key=lambda form: (len(form), form))
    return written


def _nouns(found: list[str]) -> _Words:
    """The words without verbs: the first word that can be a verb, and words that are always verbs. Many words are both
    noun and verb, such as `pull` and `request` in `merge_pull_request`."""
    verb = next((place for place, word in enumerate(found) if word in _VERBS or word in _THINGS_TOO), None)
    return tuple(
        word for place, word in enumerate(found) if place != verb and word not in _VERBS and not word.isdigit()
    )


def singular_of(word: str) -> str:
    """An English noun in lower case without its plural ending."""
    if len(word) > 4 and word.endswith("ies"):
        return f"{word[:-3]}y"
    if len(word) > 4 and word.endswith(("sses", "xes", "ches", "shes")):
        return word[:-2]
    return word[:-1] if len(word) > 3 and word.endswith("s") and word[-2] not in "siu" else word


def _all(text: str) -> frozenset[str]:
    return frozenset(singular_of(word) for word in text.split())


_SMALL = _all(
    "all an and any api as at by for from in info into it its me my of off on or out per self the this to up via with"
)
_VERBS = _all(
    """
    abort activate add analyze append apply approve assign attach authenticate authorize batch begin bulk calculate
    cancel choose clear compare compute configure connect convert create createorupdate deactivate delete deny
    deploy describe destroy detach disable disconnect download duplicate edit enable evaluate exec execute extract
    fetch find generate get give grant import init initialize insert inspect install invoke join kill launch leave
    list load lookup make manage merge modify move mute navigate open optimize parse publish put read recommend
    refresh reject remove rename reorder replace reset resolve restart restore resume retrieve retry revert revoke
    rotate save select send set show simulate start stop submit subscribe suggest suspend terminate toggle transfer
    transform undo unlink unlock unsubscribe update upload upsert use validate verify write
    """
)
"""Words that are always verbs in names of tools."""
_THINGS_TOO = _all(
    """
    accept archive build call change check clean clone close commit complete copy count display drag drop emulate
    end export fill filter fork format handle link lock login logout mark patch pause ping post press preview pull
    push query rebase register release reload render reply report request resize review run sample scan schedule
    search share sign sort split switch sync tag take test track transition trigger upgrade view wait watch wipe
    """
)
"""Words that are a verb in one name and a noun in another."""
