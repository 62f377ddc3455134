"""Answers what an upstream asks during one call: by the host, or as the configuration says.

The program takes no part in it, so neither it nor the model can answer for the person.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from typing import Any

import anyio

from codemode_server.calls.forwarded_input import asks_for_secret, forwarded_request, returned_answer
from codemode_server.calls.kernel import Call
from codemode_server.config.live import LiveConfig
from codemode_server.config.settings import ServerSettings
from codemode_server.domain.errors import ResultWithheld
from codemode_server.domain.ids import JsonValue
from codemode_server.domain.input_requests import Feature, InputRefused, InputRequest
from codemode_server.upstreams.requests import configured_roots

logger = logging.getLogger(__name__)

MAX_REQUESTS_OF_CALL = 10
"""Requests of one call that are answered."""
_PARTS_OF_ADDRESS = ("url", "elicitationId")
Recorder = Callable[[InputRequest, str, dict[str, Any] | None], None]
"""Records a request, how it was answered, and the answer."""


class ServerTexts:
    """Texts of a server on their way to the host during a call, without secrets."""

    async def protected(self, call: Call, value: JsonValue) -> JsonValue:
        """A question of a server to the host. Raises `ResultWithheld` if it can't be handed on."""
        return value

    async def require_shareable(self, call: Call, address: str) -> None:
        """Check an address that a server asks the person to open. Raises `ResultWithheld` if the host must not see
        it."""

    def masked(self, call: Call, text: str) -> str:
        """A short text, such as a message on progress."""
        return call.calls.caller.redactor.text(text)


class CallInput:
    def __init__(self, call: Call, *, config: LiveConfig, texts: ServerTexts, record: Recorder) -> None:
        self._call = call
        self._calls = call.calls
        self._server = call.record.server
        self._texts = texts
        self._config = config
        self._record = record
        self._requests = 0

    @property
    def session_id(self) -> str:
        return self._calls.caller.session.session_id

    @property
    def features(self) -> frozenset[Feature]:
        server = self._config.settings.servers.get(self._server)
        return frozenset() if server is None else server.answered_features(self._calls.host.features)

    async def answer(self, request: InputRequest) -> dict[str, Any]:
        self._requests += 1
        self._calls.input_requests += 1
        try:
            answer = await self._answer(request)
        except InputRefused as refusal:
            self._refused(request, str(refusal))
            raise
        except anyio.get_cancelled_exc_class():
            self._record(request, "withdrawn", None)
            raise
        self._record(request, str(answer.get("action", "answered")), answer)
        return answer

    async def _answer(self, request: InputRequest) -> dict[str, Any]:
        feature, limits = request.feature, self._config.settings.limits
        if feature is None:
            raise InputRefused(f"there is no method {request.method!r}")
        most = min(MAX_REQUESTS_OF_CALL, limits.input_requests)
        if self._requests > most or self._calls.input_requests > limits.input_requests:
            raise InputRefused(
                f"one call may ask at most {most} times, and all calls of a program {limits.input_requests} times"
            )
        server = self._config.settings.servers[self._server]
        if feature not in self.features:
            return self._without_host(request, feature, server)
        forwarded = await self._forwarded(request, feature)
        if feature is Feature.ELICITATION and asks_for_secret(request.params):
            logger.warning("server %r asks for what seems to be a secret by a form", self._server)
        answer = await self._in_time(forwarded, feature, server)
        if answer is None:
            if feature in (Feature.ELICITATION, Feature.URL):
                return {"action": "cancel"}
            raise InputRefused("there was no answer in time")
        return returned_answer(forwarded, answer, self._config.redactor)

    async def _forwarded(self, request: InputRequest, feature: Feature) -> InputRequest:
        """The request for the host, with tokens in place of personal data. An address that has any is refused, since it
        is opened in the person's browser, where a token leads nowhere."""
        given, server, calls = dict(request.params), self._server, self._calls
        kept = {key: given.pop(key) for key in _PARTS_OF_ADDRESS if key in given} if feature is Feature.URL else {}
        try:
            given = await self._texts.protected(self._call, given)
            if feature is not Feature.URL:
                return forwarded_request(InputRequest(request.method, given), server, calls.caller.redactor)
            question = InputRequest(request.method, {**calls.caller.redactor.value(given), **kept})
            forwarded = forwarded_request(question, server, self._config.redactor)
            shown = "\n".join(str(forwarded.params[key]) for key in kept)
            await self._texts.require_shareable(self._call, shown)
        except ResultWithheld as error:
            raise InputRefused(str(error)) from error
        return forwarded

    def _without_host(self, request: InputRequest, feature: Feature, server: ServerSettings) -> dict[str, Any]:
        """The answer where the configuration or the host rules the feature out."""
        match feature:
            case Feature.ELICITATION | Feature.URL:
                if server.elicitation == "decline":
                    return {"action": "decline"}
                self._refused(request, f"the host does not support {feature}")
                return {"action": "decline"}
            case Feature.ROOTS:
                return {"roots": []}
        is_refused = server.sampling == "refuse"
        raise InputRefused("sampling is refused by the user" if is_refused else "the host does not support sampling")

    async def _in_time(self, request: InputRequest, feature: Feature, server: ServerSettings) -> dict[str, Any] | None:
        """The answer; None if it took longer than the program may wait for answers."""
        if feature is Feature.ROOTS and not isinstance(server.roots, str):
            return {"roots": configured_roots(server.roots)}
        self._call.end_turn()  # the host may take minutes, or write to the same server before it answers
        with self._calls.wait_for_person(self._config.settings.limits.input_seconds):
            return await self._calls.host.ask(request)
        return None

    def _refused(self, request: InputRequest, why: str) -> None:
        self._record(request, "refused", None)
        count = self._calls.input_requests
        if count <= MAX_REQUESTS_OF_CALL or math.log10(count).is_integer():
            logger.warning("server %r: %s was refused: %s", self._server, request.method[:80], why)
