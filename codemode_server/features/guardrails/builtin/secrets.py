"""The guardrail `secrets`: no credential in the arguments of a call.

It knows tokens of widely used services, private keys, and passwords in addresses. The secrets of the configuration need
no guardrail: programs never have them. A token that a program encodes, in base64 for instance, is not found.
"""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import BaseModel, ConfigDict

from codemode_server.features.guardrails.builtin.texts import ArgumentsGuardrail, spellings_of, texts_of
from codemode_server.features.guardrails.guardrail import GuardedCall
from codemode_server.support.known_tokens import ADDRESS_WITH_PASSWORD, PRIVATE_KEY, has_known_token

_MIN_TOKEN_CHARACTERS = 12


class SecretsSettings(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    action: Literal["block", "ask"] = "block"


class SecretsGuardrail(ArgumentsGuardrail):
    """Blocks calls with a credential in them."""

    Settings = SecretsSettings
    needs_thread: ClassVar[bool] = False

    def problem(self, call: GuardedCall) -> str:
        for place, text in texts_of(call.arguments):
            if found := _secret_in(text):
                return f"{place} of the arguments holds {found}"
        return ""


def _secret_in(text: str) -> str:
    """Kind of credential in a text; empty if none is known."""
    if len(text) < _MIN_TOKEN_CHARACTERS:
        return ""
    for spelling in spellings_of(text):
        if has_known_token(spelling):
            return "what looks like a token of a service"
        if "PRIVATE KEY" in spelling and PRIVATE_KEY.search(spelling):
            return "a private key"
        if "://" in spelling and ADDRESS_WITH_PASSWORD.search(spelling):
            return "an address with a password"
    return ""
