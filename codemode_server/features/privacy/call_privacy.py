"""The layer that turns personal data in answers into tokens, and tokens in arguments into values.

What is decided, recorded, learned and reported has the tokens. A value is put in place of its token where a call is
sent, and only for tools that may receive that kind of data (`privacy.release`).
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import anyio

from codemode_server.calls.call_input import ServerTexts
from codemode_server.calls.execution_calls import ExecutionCalls
from codemode_server.calls.kernel import Call, Layer, Next
from codemode_server.calls.policy.names import Spellings
from codemode_server.calls.targets import ResourceTarget, title_of
from codemode_server.catalog.catalog import Server
from codemode_server.config.live import LiveConfig
from codemode_server.domain.calls import Ask, Capture, Deny
from codemode_server.domain.errors import (
    CallError,
    CallRefused,
    InvalidArguments,
    JournalUnavailable,
    ResultWithheld,
    SettingsError,
    TokensFull,
    UnknownTool,
)
from codemode_server.domain.ids import JsonValue
from codemode_server.domain.principals import Principal
from codemode_server.domain.privacy_tokens import first_of_its_kind
from codemode_server.domain.tools import without_output
from codemode_server.features.privacy.detection import Detection
from codemode_server.features.privacy.findings import Findings
from codemode_server.features.privacy.protection import mode_of, protected_servers
from codemode_server.features.privacy.release import (
    Release,
    arguments_to_send,
    explanation_of_tokens,
    never_made,
    restriction_of,
)
from codemode_server.features.privacy.replacing import replaced, tokens_in, with_kinds
from codemode_server.features.privacy.settings import PrivacySettings, ProtectionMode
from codemode_server.features.privacy.token_map import TokenMap
from codemode_server.features.privacy.token_store import TokenStore
from codemode_server.features.privacy.values_in_text import NotPlaceable
from codemode_server.sandbox.contract import Reply
from codemode_server.support.extras import has_privacy, missing_privacy
from codemode_server.support.known_values import KnownValues
from codemode_server.support.off_loop import is_large, run_sized
from codemode_server.upstreams.results import CUT

if TYPE_CHECKING:
    from codemode_server.storage.database_thread import DatabaseThread
    from codemode_server.storage.token_cipher import TokenCipher

_OWN_ERRORS = (CallRefused, InvalidArguments, ResultWithheld, UnknownTool)
"""Their texts are written here; a recognizer of names does not search them."""
_MAX_ERROR_CHARACTERS = 200_000
"""A longer error of an upstream is replaced as a whole."""
_MAX_SESSIONS = 1_000
"""Sessions whose model has read the explanation of tokens; one that reads it twice does nothing wrong."""
_LOST_AT_CUT = 200
"""Characters before the cut of an error, where no detection finds half of a value."""


@dataclass(frozen=True, slots=True)
class ReleasedValues:
    """The values of the tokens in the arguments of one call; implements `kernel.SentValues`."""

    release: Release
    _layer: Privacy
    _call: Call

    @property
    def arguments(self) -> dict[str, Any]:
        return self.release.arguments

    @property
    def remark(self) -> str:
        return f"sends personal data ({', '.join(self.release.kinds)})"

    async def now(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """Of those tokens that the decision was about; one that was made later stays as it is written."""
        return await self._layer.sent(self._call, arguments, self.release)


class Privacy(Layer, ServerTexts):
    """Built once; holds the detection, and no state of any call. Nothing of the detection is imported before a call
    that is protected. What asks for tokens raises `JournalUnavailable` if their store can't be used."""

    def __init__(self, config: LiveConfig, tokens: TokenMap | None = None) -> None:
        """Without `tokens`, calls of protected servers are refused."""
        self._config = config
        self._tokens = tokens
        self._detection = Detection(config)
        self._informed: OrderedDict[str, None] = OrderedDict()

    @property
    def _settings(self) -> PrivacySettings:
        return PrivacySettings.of(self._config.settings)

    @property
    def _map(self) -> TokenMap | None:
        return self._tokens if self._config.protects_data else None

    def mode_of(self, server: Server) -> ProtectionMode:
        """The protection of personal data in answers of a server."""
        if not self._config.protects_data:
            return "values"
        return mode_of(self._settings, Spellings.of_server(server))

    def values_of(self, principal: Principal | None) -> KnownValues | None:
        """For `LiveConfig.values_of`."""
        if (tokens := self._map) is None:
            return None
        owner = None if principal is None else principal.principal_id
        return tokens.values_of(owner)

    async def refresh(self, principal: Principal) -> None:
        """Have `values_of` know what other products have found, and the person has forgotten."""
        if (tokens := self._map) is not None:
            await tokens.refresh(principal.principal_id)

    async def prepare(self, call: Call) -> None:
        """Find the tokens in the arguments, with their values."""
        target, arguments = call.target, call.arguments
        if (tokens := self._map) is None or isinstance(target, ResourceTarget):  # a token in a URI is no value
            return
        named = await run_sized(call.is_large, tokens_in, arguments)
        if not named:
            return
        meant = {token.upper() for token in named}
        found = await tokens.find(call.calls.caller.principal.principal_id, {*meant, *map(first_of_its_kind, meant)})
        known = {token: it for token, it in found.items() if token in named}
        invented = never_made(self._settings, target, named, found)
        if not known and not invented:
            return
        obstacle = ""
        try:
            sent = await run_sized(call.is_large, arguments_to_send, target, arguments, known)
        except NotPlaceable as error:
            sent, obstacle = arguments, str(error)
        call.values = ReleasedValues(Release(sent, known, invented, obstacle), self, call)

    async def restrict(self, call: Call) -> Deny | Ask | None:
        """Because of the values that it would send, or because its answer can't be protected."""
        if not self._config.protects_data:
            return None
        if self.mode_of(call.target.server) != "values":
            lacking = missing_privacy(self._settings.name_models)
            if lacking is not None or self._tokens is None:
                why = lacking or "there is no store of tokens"
                return Deny(f"`privacy.servers` in upstream.yaml protects what it answers, and {why}")
        release = _release_of(call)
        return None if release is None else restriction_of(self._settings, call.target, release)

    async def sent(self, call: Call, arguments: dict[str, Any], decided: Release) -> dict[str, Any]:
        """The arguments that the upstream receives, with the values of tokens at this moment. Raises `CallRefused` if
        the person has forgotten a token meanwhile."""
        if (tokens := self._map) is None:
            return arguments
        known = await tokens.find(call.calls.caller.principal.principal_id, decided.known)
        now = replace(decided, known=known)
        if now.forgotten:
            restriction = restriction_of(self._settings, call.target, now)
            raise CallRefused(f"{title_of(call.target)} was not called: {restriction.reason if restriction else ''}")
        try:
            return await run_sized(call.is_large, arguments_to_send, call.target, arguments, known)
        except NotPlaceable as error:  # since guardrails have changed the arguments
            raise CallRefused(f"{title_of(call.target)} was not called: {error}") from error

    async def around(self, call: Call, proceed: Next) -> Reply:
        try:
            reply = await proceed(call)
        except CallError as error:
            if self.mode_of(call.target.server) == "values":
                raise
            raise type(error)(await self._error_text(call, error)) from error
        if isinstance(call.decision, Capture):
            return reply
        received = await self._received(call, reply)
        if received is not reply:
            call.note_links(received)
        return received

    async def _received(self, call: Call, reply: Reply) -> Reply:
        """The answer to a call with tokens in place of personal data, and of the values that the call has sent. Raises
        `ResultWithheld` if it can't be handed on."""
        target, release = call.target, _release_of(call)
        mode, sent = self.mode_of(target.server), dict[str, str]()
        if release is not None:
            sent = {token: it.original for token, it in release.known.items() if it.original is not None}
        if mode == "values" and not sent:
            return reply
        value = reply.value
        if mode != "values":
            withheld = f"{title_of(target)} was called, and its result is withheld"
            found = await self._detection.find(value, withheld)
            if mode == "block" and found.found:
                kinds = ", ".join(sorted({it.kind for it in found.found}))
                raise ResultWithheld(
                    f"{withheld}: it has personal data ({kinds}), and privacy.servers in upstream.yaml says `block`"
                    f" for {target.server.raw_name}"
                )
            value = await self._with_tokens(call, value, found, withheld)
            if value is not reply.value:
                self._explain_tokens(call.calls)
        if sent:
            from codemode_server.features.privacy.known_texts import without_echo

            value = await run_sized(is_large(value), without_echo, value, sent)
        return replace(reply, value=value)

    async def _with_tokens(self, call: Call, value: JsonValue, findings: Findings, withheld: str) -> JsonValue:
        """A message of a server with tokens, which are asked for at once: a server that may not get so many gets none.
        Raises `ResultWithheld` if there are no tokens for it."""
        found, server = findings.found, call.target.server.raw_name
        principal = call.calls.caller.principal.principal_id
        if (known := self._map) is None:
            if found:
                raise ResultWithheld(f"{withheld}: there is no store of tokens")
            return value
        if found:
            try:
                tokens = await known.tokens_for(principal, found, server)
            except (JournalUnavailable, TokensFull) as error:
                raise ResultWithheld(f"{withheld}: {error}") from error
            value = await run_sized(is_large(value), replaced, value, found, tokens)
        named: JsonValue = await run_sized(is_large(value), known.texts_of(principal).tokenized_result, value, server)
        return value if named == value else named

    def _explain_tokens(self, calls: ExecutionCalls) -> None:
        """Tell the model, once in a session, what tokens are and which tools may receive which kinds."""
        session = calls.caller.session.session_id
        if session not in self._informed:
            self._informed[session] = None
            if len(self._informed) > _MAX_SESSIONS:
                self._informed.popitem(last=False)
            calls.messages.append(explanation_of_tokens(self._settings))

    async def _error_text(self, call: Call, error: CallError) -> str:
        """The text of an error of a call, without secrets and with tokens in place of personal data."""
        text = call.calls.caller.redactor.text(str(error))
        if len(text) > _MAX_ERROR_CHARACTERS:
            return "it failed with an error that is too long to be searched for personal data"
        withheld = f"{title_of(call.target)} was called and failed, and why is withheld"
        try:
            with anyio.CancelScope(shield=True):  # the outcome is still to be recorded
                if isinstance(error, _OWN_ERRORS):
                    found = await run_sized(is_large(text), self._detection.detector.in_value, text)
                else:
                    found = await self._detection.find(text, withheld)
                text = _without_half(str(await self._with_tokens(call, text, found, withheld)))
        except ResultWithheld as reason:
            return str(reason)
        return text

    async def protected(self, call: Call, value: JsonValue) -> JsonValue:
        if self.mode_of(call.target.server) == "values":
            return value
        withheld = f"what {call.target.server.name} asks is withheld"
        found = await self._detection.find(value, withheld)
        return await self._with_tokens(call, value, found, withheld)

    async def require_shareable(self, call: Call, address: str) -> None:
        """The host sees the address as it is: a token leads nowhere. The model gets the reason as well."""
        if (tokens := self._map) is None:
            return
        server, calls = call.target.server, call.calls
        known = tokens.texts_of(calls.caller.principal.principal_id)
        values = known.kinds_in(address) | known.kinds_in(unquote(address))
        kinds = {kind for value, kind in values.items() if not self._detection.detector.allows(value)}
        if self.mode_of(server) != "values":
            kinds |= {it.kind for it in self._detection.detector.in_value(address).found}
        if kinds:
            message = (
                f"the address that {server.name} asks the user to open has personal data "
                f"({', '.join(sorted(kinds))}), so it is not shown to the host; values that the host may see belong in "
                "privacy.allow in upstream.yaml"
            )
            if message not in calls.messages:
                calls.messages.append(message)
            raise ResultWithheld(message)

    def masked(self, call: Call, text: str) -> str:
        """Personal data that has no token yet becomes its kind: `<EMAIL>`."""
        text = super().masked(call, text)
        if self.mode_of(call.target.server) == "values":
            return text
        found = self._detection.find_at_once(text)
        return "" if found is None or not found.is_complete else str(with_kinds(text, found))

    def logged(self, server: str, text: str) -> str:
        """For `LiveConfig.logged`: as in the catalog, without the output of a process."""
        if server not in protected_servers(self._settings, self._config.settings.servers):
            return text
        found = self._detection.detector.in_value(text := without_output(text)) if has_privacy() else None
        return _without_half(str(with_kinds(text, found))) if found and found.is_complete else "[withheld]"

    async def load(self) -> None:
        """Load what takes long, so that the first result does not wait for it."""
        await self._detection.load()


def _release_of(call: Call) -> Release | None:
    return call.values.release if isinstance(call.values, ReleasedValues) else None


def _without_half(text: str) -> str:
    """An error without the end of what was cut, which may be half of a value."""
    begins, cut, rest = text.rpartition(CUT)
    return begins[:-_LOST_AT_CUT].rstrip() + cut + rest if cut else text


def call_privacy(config: LiveConfig, thread: DatabaseThread, cipher: TokenCipher) -> Privacy:
    """The protection of a product, as its configuration asks for it; the redactors of `config` use it from now on.
    Raises `SettingsError` if servers are to be protected, and the detection is not installed."""
    settings = PrivacySettings.of(config.settings)
    if settings.is_on and (lacking := missing_privacy(settings.name_models)):
        raise SettingsError(f"privacy: {lacking.reason}: {lacking.command}")
    store = TokenStore(thread, cipher, lambda: PrivacySettings.of(config.settings).limits)
    privacy = Privacy(config, TokenMap(store))
    config.values_of, config.logged = privacy.values_of, privacy.logged
    return privacy
