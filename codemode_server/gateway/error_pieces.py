"""Replaces known values in the errors of calls. In those that the product wrote only what they quote is looked at, so
that no upstream turns words of the product into privacy tokens."""

from __future__ import annotations

from functools import partial

from codemode_server.catalog.catalog import Server
from codemode_server.catalog.own_names import names_and_words_of
from codemode_server.domain.errors import CallError, CallRefused, InvalidArguments, ResultWithheld, UnknownTool
from codemode_server.domain.ids import JsonValue
from codemode_server.json_texts import texts_in
from codemode_server.known_values import OwnText, quoted_in
from codemode_server.redaction import Redactor

OWN_ERRORS = (CallRefused, InvalidArguments, ResultWithheld, UnknownTool)
"""Their texts are written here. What they quote has been searched for personal data before, and reasons of the person
and of guardrails have no known values."""


def without_known_values(redactor: Redactor, server: Server, error: CallError, arguments: JsonValue) -> str:
    """The text of an error of a call with these arguments, without secrets and known values."""
    text = str(error)
    if isinstance(error, OWN_ERRORS):
        own = OwnText(lambda: [*texts_in(arguments), *quoted_in(text)], partial(names_and_words_of, server))
        redactor = redactor.for_own(own)
    return redactor.text(text)
