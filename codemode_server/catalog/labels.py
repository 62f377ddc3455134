"""Guesses what data a tool reads and where it sends data, from its annotations, its name and its parameters. Pure.

A wrong guess costs a question to the person or leaves one out, so only plain signs count, and the person's own labels
(`servers.<name>.labels`) take the place of every guess.
"""

from __future__ import annotations

from codemode_server.catalog.naming import singular_words
from codemode_server.domain.tools import Effect, ToolDefinition

PRIVATE = "private"
"""It returns data that is not meant for everyone."""
UNTRUSTED = "untrusted"
"""It returns text that strangers may have written, and that may tell the model what to do."""
PUBLIC_SINK = "public-sink"
"""It makes what it gets readable for other people, or sends it to an address that the caller chooses."""


def _set(text: str) -> frozenset[str]:
    return frozenset(text.split())


_NOTHING: frozenset[str] = frozenset()
_READS = _set(
    "get list read search find fetch query retrieve view show open download export load lookup browse history "
    "scan execute run select"
)
_SENDS = _set(
    "create post send add update edit publish upload push reply comment share invite submit tweet append write "
    "put patch forward email notify schedule"
)
_ALWAYS_SENDS = _set("publish share tweet invite")
_CORRESPONDENCE = _set("email mail gmail inbox message sms thread dm chat conversation attachment voicemail ticket")
"""Written by others, for the eyes of the person."""
_PERSONAL = _set(
    "file document doc docs drive note notebook calendar contact crm customer employee patient invoice order "
    "payment transaction lead deal opportunity database table graph memory secret credential token password cookie "
    "env log block page space query row record object node entity directory blob"
)
_PUBLIC_TEXT = _set(
    "issue pull discussion comment review tweet feed rss article news web website url html webpage internet "
    "reddit wikipedia transcript"
)
_PUBLISHED = _set(
    "email mail gmail message sms thread dm chat channel issue comment pull review discussion gist tweet post "
    "release webhook attachment link call invitation"
)
_FORGES = _set("github gitlab bitbucket gitea codeberg")
_BROWSERS = _set("browser playwright puppeteer chrome")
_FETCHES = _set("fetch navigate scrape crawl goto markdown browse request")
_ADDRESSES = _set("url urls uri link href")
_SHOWN_PAGE = _set("snapshot screenshot evaluate console network find script text")
_ABOUT = _set(
    "template schema field metadata type transition permission setting option definition property status count "
    "index time documentation pricing price label guide link instruction pattern"
)
"""A tool that reads such a thing reads nothing of what else its name says."""


def guess_labels(server: str, tool: ToolDefinition) -> frozenset[str]:
    """The labels of a tool of a server with this name, as far as plain signs say."""
    parts = singular_words(tool.name)
    named = frozenset(parts)
    place = named | frozenset(singular_words(server))
    parameters = frozenset(tool.input_schema.get("properties") or ())
    if place & _BROWSERS or (named & _FETCHES and parameters & _ADDRESSES):
        found = _of_a_browser(named, parameters)
    elif _first_verb(parts) in _READS or (tool.effect is Effect.READS and _first_verb(parts) not in _SENDS):
        found = _of_a_reader(named, place)
    else:
        found = _of_a_sender(named, place)
    return found - {UNTRUSTED, PUBLIC_SINK} if tool.is_closed_world else found


def guess_resource_labels(uri: str, *, is_expanded: bool) -> frozenset[str]:
    """The labels of a resource by its address. `is_expanded`: the program chose a part of the address."""
    scheme = uri.partition(":")[0].lower()
    if scheme in ("http", "https"):
        return frozenset({UNTRUSTED, PUBLIC_SINK} if is_expanded else {UNTRUSTED})
    return frozenset({PRIVATE}) if scheme == "file" else _NOTHING


def _of_a_browser(named: frozenset[str], parameters: frozenset[str]) -> frozenset[str]:
    if parameters & _ADDRESSES:
        return frozenset({UNTRUSTED, PUBLIC_SINK})
    if named & {"cookie", "storage", "localstorage", "sessionstorage"}:
        return frozenset({PRIVATE}) if named & {"get", "list", "state"} else _NOTHING
    if named & {"type", "fill", "upload", "code"}:
        return frozenset({PUBLIC_SINK})
    return frozenset({UNTRUSTED}) if named & _SHOWN_PAGE else _NOTHING


def _of_a_reader(named: frozenset[str], place: frozenset[str]) -> frozenset[str]:
    if named & _ABOUT:
        return _NOTHING
    if named & _CORRESPONDENCE or {"channel", "history"} <= named:
        return frozenset({PRIVATE, UNTRUSTED})
    found = set()
    if named & _PUBLIC_TEXT:
        found.add(UNTRUSTED)
    if named & {"confluence", "jira"} or (named & _PERSONAL and not place & _FORGES):
        found.add(PRIVATE)
    if place & _FORGES and named & {"file", "content", "secret"}:
        found.add(PRIVATE)
    return frozenset(found)


def _of_a_sender(named: frozenset[str], place: frozenset[str]) -> frozenset[str]:
    if named & _ALWAYS_SENDS:
        return frozenset({PUBLIC_SINK})
    if not named & _SENDS:
        return _NOTHING
    is_published = named & _PUBLISHED or (place & _FORGES and named & {"file", "push", "repository"})
    return frozenset({PUBLIC_SINK}) if is_published or {"git", "push"} <= place else _NOTHING


def _first_verb(parts: list[str]) -> str:
    if "search" in parts:  # also in the name of a request, as `post-search`
        return "search"
    return next((word for word in parts if word in _READS or word in _SENDS), "")
