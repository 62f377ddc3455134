"""Interface through which the gateway forwards upstream input requests to the host."""

from __future__ import annotations

from typing import Any, Protocol

from codemode_server.domain.input_requests import Feature, InputRefused, InputRequest


class HostInput(Protocol):
    """The host of one execution."""

    @property
    def features(self) -> frozenset[Feature]:
        """Features that the host has declared."""

    async def ask(self, request: InputRequest) -> dict[str, Any]:
        """The host's answer, as it came. Cancelling this withdraws the request.

        Raises:
            InputRefused: the host answered with an error.
        """


class _NoHostInput:
    features: frozenset[Feature] = frozenset()

    async def ask(self, request: InputRequest) -> dict[str, Any]:
        raise InputRefused("there is no host that could be asked")


NO_HOST_INPUT: HostInput = _NoHostInput()
"""For executions without a host."""
