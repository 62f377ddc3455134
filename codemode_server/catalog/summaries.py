"""Extracts one line about a tool or a server from its description.

Descriptions often begin with a heading, a warning that many tools of the server share, or an instruction to the agent.
The line is the first sentence that says what the tool does. `list_dir`, search results and stubs show it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import islice

from codemode_server.catalog.untrusted import SENTENCE_END, one_line
from codemode_server.domain.tools import ToolDefinition
from codemode_server.support.text import clean

MAX_SUMMARY_CHARACTERS = 120
_MAX_OPENING_CHARACTERS = 1_500
_MAX_INSTRUCTIONS_CHARACTERS = 5_000
_MAX_OPENING_SENTENCES = 4
_MIN_SHARING_TOOLS = 3
_FULL_LINE_CHARACTERS = 60
"""Minimum length of a line that was probably wrapped, so that its sentence continues on the next line."""
_MAX_LABEL_WORDS = 4

_LINE_MARK = re.compile(r"^(?:[-*+>•]\s+|\d{1,2}[.)]\s+|\[[ x]\]\s+)+")
_HEADING = re.compile(r"#{1,6}\s|<[^<>]*>$|={3,}$|-{3,}$|\|")
_LINK = re.compile(r"!?\[([^\[\]]{0,200})\]\((?:[^()\s]|\([^()\s]{0,100}\)){0,500}\)")
_STRONG_EMPHASIS = re.compile(r"(?<![\w*])\*{3}(?=\w)([^*]*[^\s*])\*{3}(?![\w*])")
_EMPHASIS = re.compile(r"\*{4,}|(?<!\*)\*\*(?!\*)|(?<![\w*])\*(?=\w)|(?<=\w)\*(?![\w*])")
"""Keeps three stars alone, which mask a secret."""
_SYMBOLS = re.compile(r"^(?!\*{3}(?:[^\w\s*]| [a-z]))[^\w<\[({\"'`/$@.…]+")
_PURPOSE_LABEL = re.compile(r"^(?:purpose|description|summary|overview|function(?:ality)?)\s*(?::\s*|$)", re.IGNORECASE)
_RULE = re.compile(
    r"(?:important|note|warning|caution|attention|audience|prerequisites?)\b\s*[:!—-]|requires\b|for example\b"
    r"|(?:you|do not|don't|never|always|follow)\b"
    r"|(?:the|this|all|each|when|before|after|if)\b.{0,150}\b(?:must|is required|are required|is deprecated)\b",
    re.IGNORECASE,
)
"""Matches a sentence about how to use a tool, not what it does."""
_DEPRECATED = re.compile(
    r"[(\[]?deprecated\b(?:\s*[:;,.!—–)\]-]|$|\s+(?:since|in favou?r of|use)\b)"
    r"|(?:this|the) (?:tool|endpoint|function|method|operation|command)?\s*(?:is|has been) (?:now )?deprecated\b",
    re.IGNORECASE,
)
_AGENT_RULE = re.compile(
    rf"{_RULE.pattern}|(?:when|before|after|if|to|please|use(?! th(?:is|e) .{{0,30}}server)|call|enable)\b",
    re.IGNORECASE,
)
_LIST_AHEAD = re.compile(r"\b(?:two|three|four|several|following|these)\b[^:]*:$", re.IGNORECASE)


@dataclass(frozen=True, eq=False)
class SharedOpenings:
    """Sentences with which several descriptions of a server begin; computed on first use."""

    descriptions: tuple[str, ...] = ()

    @cached_property
    def counts(self) -> dict[str, int]:
        """The number of openings that contain each sentence, normalized by `_comparable`."""
        counts: Counter[str] = Counter()
        for description in self.descriptions:
            counts.update({_comparable(sentence) for sentence in _opening(description)})
        least = min(_MIN_SHARING_TOOLS, max(2, len(self.descriptions)))
        return {sentence: count for sentence, count in counts.items() if count >= least}


NO_SHARED_OPENINGS = SharedOpenings()


def tool_summary(definition: ToolDefinition, shared: Mapping[str, int]) -> str:
    """One line; empty if its description gives none. `shared` counts the sentences with which others of its server
    begin."""
    opening = _opening(definition.description)
    title = one_line(definition.title, MAX_SUMMARY_CHARACTERS)
    own = [sentence for sentence in opening if _comparable(sentence) not in shared]
    if not own:
        return title or _cut(min(opening, key=lambda it: shared[_comparable(it)], default=""), MAX_SUMMARY_CHARACTERS)
    if not _RULE.match(own[0]):
        return _cut(own[0], MAX_SUMMARY_CHARACTERS)
    found = title or next((sentence for sentence in own if not _RULE.match(sentence)), own[0])
    return _cut(found, MAX_SUMMARY_CHARACTERS)


def first_sentence(text: str, limit: int = MAX_SUMMARY_CHARACTERS) -> str:
    return _cut(next(iter(_opening(text)), ""), limit)


def deprecation(description: str) -> str:
    """The sentence that declares the tool deprecated, and the next one, which often names its successor; else empty.
    Deprecated parameters do not count."""
    opening = _opening(description) if "deprecated" in description.lower() else []
    number = next((number for number, sentence in enumerate(opening) if _DEPRECATED.match(sentence)), len(opening))
    return " ".join(opening[number : number + 2])


def server_purpose(instructions: str, limit: int) -> str:
    """The sentence that states a server's purpose; empty if its instructions are only rules for an agent."""
    sentences = list(_sentences(instructions[:_MAX_INSTRUCTIONS_CHARACTERS]))
    if not sentences:
        return one_line(_plain(instructions[:_MAX_INSTRUCTIONS_CHARACTERS].strip("#-> \n")), limit)
    purposes = (it for it in sentences if not _AGENT_RULE.match(it) and not _LIST_AHEAD.search(it))
    return _cut(next(purposes, ""), limit).removesuffix(":")


def contains_summary(text: str, summary: str) -> bool:
    """True if the beginning of a text contains the summary, ignoring markup and line breaks."""
    beginning = text[:_MAX_INSTRUCTIONS_CHARACTERS]
    return _comparable(summary.removesuffix("…")) in _comparable(_EMPHASIS.sub("", _LINK.sub(r"\1", beginning)))


def _opening(text: str) -> list[str]:
    return list(islice(_sentences(text[:_MAX_OPENING_CHARACTERS]), _MAX_OPENING_SENTENCES))


def _sentences(text: str) -> Iterator[str]:
    """The sentences of a description without markup, headings and labels such as `Returns:`."""
    for paragraph in _paragraphs(clean(text)):
        for part in paragraph.split(" | "):
            for sentence in SENTENCE_END.split(part):
                plain = _PURPOSE_LABEL.sub("", _plain(sentence))
                if plain and not (plain.endswith(":") and len(plain.split()) <= _MAX_LABEL_WORDS):
                    yield plain


def _paragraphs(text: str) -> Iterator[str]:
    """The lines of a text with wrapped lines joined, without headings and code blocks."""
    paragraph = before = ""
    is_code = False
    for raw in text.strip().split("\n"):
        line = raw.strip()
        is_code ^= line.startswith("```")
        is_wrapped = bool(line) and (len(before) >= _FULL_LINE_CHARACTERS or line[0].islower())
        if paragraph and not (is_wrapped and not _LINE_MARK.match(line)):
            yield " ".join(paragraph.split())
            paragraph = ""
        before = line
        if not is_code and not line.startswith("```") and not _HEADING.match(line):
            paragraph = f"{paragraph} {_LINE_MARK.sub('', line, count=1)}".strip()
    if paragraph:
        yield " ".join(paragraph.split())


def _plain(sentence: str) -> str:
    text = _STRONG_EMPHASIS.sub(r"\1", _LINK.sub(r"\1", sentence))
    text = _EMPHASIS.sub("", text).replace("\\`", "`").replace("\\_", "_")
    return _SYMBOLS.sub("", text).strip()


def _comparable(sentence: str) -> str:
    return " ".join(re.findall(r"\w+", sentence.lower()))


def _cut(sentence: str, limit: int) -> str:
    if len(sentence) <= limit:
        return sentence
    cut = sentence[:limit].rsplit(" ", 1)[0]
    before, bracket, inside = cut.rpartition(" (")
    if bracket and ")" not in inside and len(before) > limit // 3:
        cut = before
    return f"{cut.rstrip(',;:')}…"
