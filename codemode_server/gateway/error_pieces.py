"""Replaces known values in the errors of calls. In those that the product wrote only what they quote is looked at, so
that no upstream turns words of the product into privacy tokens."""

from __future__ import annotations

from functools import partial

from codemode_server.catalog.catalog import Server
from codemode_server.catalog.own_names import words_of_names_of
from codemode_server.domain.errors import CallError, CallRefused, InvalidArguments, UnknownTool
from codemode_server.domain.ids import JsonValue
from codemode_server.json_texts import texts_in
from codemode_server.known_values import OwnText, quoted_in
from codemode_server.redaction import Redactor

_WRITTEN_HERE = (CallRefused, InvalidArguments, UnknownTool)


def without_known_values(redactor: Redactor, server: Server, error: CallError, arguments: JsonValue) -> str:
    """The text of an error of a call with these arguments, without secrets and known values."""
    text = str(error)
    if isinstance(error, _WRITTEN_HERE):
        own = OwnText(lambda: [*texts_in(arguments), *quoted_in(text)], partial(words_of_names_of, server))
        redactor = redactor.for_own(own)
    return redactor.text(text)
