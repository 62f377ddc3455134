"""Requests of an upstream during a call: input of the person, an answer of a model, or the person's folders."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol


class Feature(StrEnum):
    """Requests that a client can answer. A host declares its features, and we declare to upstreams what can be
    answered."""

    ELICITATION = "elicitation"  # a form
    URL = "URL elicitation"  # an address that the person opens
    SAMPLING = "sampling"
    ROOTS = "roots"


@dataclass(frozen=True, slots=True)
class InputRequest:
    """One such request, as the protocol has it. All of it is the upstream's own."""

    method: str
    params: Mapping[str, Any]

    @property
    def feature(self) -> Feature | None:
        """None for a method that does not exist."""
        match self.method:
            case "elicitation/create":
                return Feature.URL if self.params.get("mode") == "url" else Feature.ELICITATION
            case "sampling/createMessage":
                return Feature.SAMPLING
            case "roots/list":
                return Feature.ROOTS
        return None


class InputRefused(Exception):
    """Raised when a request gets no answer; the message is for the upstream."""


class InputProvider(Protocol):
    """Answers what an upstream asks during one call."""

    @property
    def features(self) -> frozenset[Feature]:
        """Features that can be answered."""

    @property
    def session_id(self) -> str:
        """The host's session that made the call."""

    async def answer(self, request: InputRequest) -> dict[str, Any]:
        """The result of the request, as the protocol has it. Raises `InputRefused` if there is none."""


class HostInput(Protocol):
    @property
    def features(self) -> frozenset[Feature]:
        """Features that the host has declared."""

    async def ask(self, request: InputRequest) -> dict[str, Any]:
        """The host's answer, as it came. Cancelling this withdraws the request. Raises `InputRefused` if the host
        answered with an error."""


class _NoHostInput:
    features: frozenset[Feature] = frozenset()

    async def ask(self, request: InputRequest) -> dict[str, Any]:
        raise InputRefused("there is no host that could be asked")


NO_HOST_INPUT: HostInput = _NoHostInput()
