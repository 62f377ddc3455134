"""Known values in the errors of calls: those of the product have them only where they quote somebody."""

from __future__ import annotations

import pytest

from codemode_server.catalog.catalog import Catalog, Server
from codemode_server.domain.errors import CallError, CallRefused, ToolFailed
from codemode_server.domain.privacy_tokens import KnownToken, TokenChanges
from codemode_server.domain.tools import ToolDefinition, UpstreamListing, UpstreamState
from codemode_server.gateway.error_pieces import OWN_ERRORS, without_known_values
from codemode_server.known_values import quoted_in
from codemode_server.privacy.token_map import KnownTexts
from codemode_server.redaction import Redactor


def redactor(*names: str) -> Redactor:
    texts = KnownTexts()
    texts.take(TokenChanges([KnownToken(f"<NAME_{at}>", "name", name) for at, name in enumerate(names, 1)], 1))
    return Redactor().replacing(texts)


def server(name: str, *tools: str) -> Server:
    listing = UpstreamListing(name, UpstreamState.READY, tuple(map(ToolDefinition, tools)))
    return Catalog.build([listing]).servers[0]


TOOLS = server("crm", "Grace", "bill", "call", "result", "tool", "mark_lee")


@pytest.mark.parametrize("kind", OWN_ERRORS)
def test_words_of_the_product_stay_in_each_of_its_own_errors(kind: type[CallError]) -> None:
    said = "crm.get was called, and its result is withheld: not for 'Ann Lovelace'"
    poisoned = redactor("Ann Lovelace", "its result is withheld")
    assert without_known_values(poisoned, TOOLS, kind(said), {}) == said.replace("Ann Lovelace", "<NAME_1>")


def test_errors_of_upstreams_are_searched_as_a_whole() -> None:
    said = "Ann Lovelace: its result is withheld"
    poisoned = redactor("Ann Lovelace", "its result is withheld")
    assert without_known_values(poisoned, TOOLS, ToolFailed(said), {}) == "<NAME_1>: <NAME_2>"


@pytest.mark.parametrize(
    ("text", "quoted"),
    [
        ("the server's field 'Ann Lee' is wrong", ["Ann Lee"]),
        ("servers' fields: 'Ann Lee' and 'Bob Ray'", ["Ann Lee", "Bob Ray"]),
        ('for `Ann Lee`, in "it\'s"', ["Ann Lee", "it's"]),
        ("'Sean O'Neil' isn't there", ["Sean O'Neil"]),
        ("name='Ann Lee'", ["Ann Lee"]),
        ("don't", []),
    ],
)
def test_what_is_quoted_is_found_beside_apostrophes(text: str, quoted: list[str]) -> None:
    assert quoted_in(text) == quoted


@pytest.mark.parametrize(
    ("value", "is_shown"),
    [
        ("Grace", True),
        ("mark_lee", True),
        ("crm.mark_lee", True),
        ("mark(lee", True),
        ("Grace Bill", False),
        ("Grace Grace", False),
        ("Grace@bill.call", False),
    ],
)
def test_a_value_is_a_name_of_the_catalog_only_as_a_whole(value: str, is_shown: bool) -> None:
    shown = without_known_values(redactor(value), TOOLS, CallRefused(f"not for '{value}'"), {})
    assert shown == f"not for '{value if is_shown else '<NAME_1>'}'"
