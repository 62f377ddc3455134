"""Turns personal data in answers into tokens, and tokens in arguments into values, for the pipeline.

What is decided, recorded, learned and reported has the tokens. A value is put in place of its token where a call is
sent, and only for tools that may receive that kind of data (`privacy.release`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import anyio

from codemode_server.catalog.catalog import Server
from codemode_server.catalog.labels import PRIVATE
from codemode_server.config.live import LiveConfig
from codemode_server.domain.calls import Ask, Deny
from codemode_server.domain.errors import (
    CallError,
    CallRefused,
    JournalUnavailable,
    ResultWithheld,
    SettingsError,
)
from codemode_server.domain.ids import JsonValue
from codemode_server.domain.principals import Principal
from codemode_server.domain.privacy_tokens import KnownToken, TokenStore, first_of_its_kind, label_of
from codemode_server.gateway.asked_addresses import kinds_in_address, require_none
from codemode_server.gateway.binary_parts import with_binary, without_binary
from codemode_server.gateway.detection import Detection
from codemode_server.gateway.echoed_values import sent_values, without_echo
from codemode_server.gateway.error_pieces import OWN_ERRORS, without_known_values
from codemode_server.gateway.execution_calls import ExecutionCalls
from codemode_server.gateway.finding_tokens import tokens_of
from codemode_server.gateway.guessed_dates import searched_for, without_known, without_known_dates
from codemode_server.gateway.policy.labels import ToolLabels
from codemode_server.gateway.policy.names import Spellings
from codemode_server.gateway.policy.protection import mode_of
from codemode_server.gateway.protocol_words import without_protocol_words
from codemode_server.gateway.query_names import QueryNames
from codemode_server.gateway.release import Release, kinds_in_uri, never_made, restriction_of, values_of, withheld_for
from codemode_server.gateway.results import note_other_spellings
from codemode_server.gateway.sent_arguments import arguments_to_send
from codemode_server.gateway.targets import CallTarget, PromptTarget, ResourceTarget, ToolTarget, title_of
from codemode_server.gateway.text_files import read_files, searched_files
from codemode_server.gateway.token_explanations import TokenExplanations
from codemode_server.gateway.upstream_message import UpstreamMessage, error_withheld, question_withheld, result_withheld
from codemode_server.known_values import KnownValues, found_in
from codemode_server.off_loop import is_large, run_sized
from codemode_server.privacy.findings import Findings
from codemode_server.privacy.replacing import TokensOf, replaced, tokens_in, tokens_in_any_case
from codemode_server.privacy.token_map import TokenMap
from codemode_server.privacy.values_in_text import NotPlaceable, with_values
from codemode_server.privacy_packages import missing
from codemode_server.privacy_settings import ProtectionMode
from codemode_server.sandbox.contract import Reply

Arguments = Mapping[str, Any]
MAX_ERROR_CHARACTERS = 200_000
"""A longer error of an upstream is replaced as a whole."""


class CallPrivacy:
    """Built once; holds the detection, and no state of any call. Nothing of the detection is imported before a call
    that is protected."""

    def __init__(self, config: LiveConfig, tokens: TokenMap | None = None) -> None:
        """Without `tokens`, calls of protected servers are refused."""
        self._config = config
        self._tokens = tokens
        self._labels = ToolLabels(config)
        self._detection = Detection(config, tokens)
        self._explanations = TokenExplanations(config)
        self._query_names = QueryNames()

    @property
    def is_on(self) -> bool:
        return self._config.settings.privacy.is_on

    @property
    def _map(self) -> TokenMap | None:
        """The tokens, if something is protected."""
        return self._tokens if self.is_on else None

    @property
    def _programs_see_values(self) -> bool:
        return self._config.settings.privacy.programs == "values"

    def mode_of(self, server: Server) -> ProtectionMode:
        """What happens to personal data in answers of a server."""
        return mode_of(self._config.settings.privacy, Spellings.of_server(server))

    def values_of(self, principal: Principal | None) -> KnownValues | None:
        """For `LiveConfig.values_of`."""
        if (tokens := self._map) is None or principal is None:
            return tokens
        return searched_for(tokens.texts_of(principal.principal_id), self._config.settings.privacy)

    async def refresh(self, principal: Principal) -> None:
        """Have `values_of` know what other products have found, and the person has forgotten.

        Raises:
            JournalUnavailable: the store can't be used.
        """
        if (tokens := self._map) is not None:
            await tokens.refresh(principal.principal_id)

    def _refusal(self, target: CallTarget) -> Deny | None:
        """Why an answer of this server could not be protected, so that it is not called."""
        if self.mode_of(target.server) == "values":
            return None
        lacking = missing(self._config.settings.privacy.models)
        if lacking is None and self._tokens is not None:
            return None
        why = lacking or "there is no store of tokens"
        return Deny(f"`privacy.servers` in upstream.yaml protects what it answers, and {why}")

    async def from_program(self, calls: ExecutionCalls, arguments: dict[str, Any]) -> dict[str, Any]:
        """The arguments with tokens in place of values that the program was given."""
        if (tokens := self._map) is None or not self._programs_see_values:
            return arguments
        known = tokens.texts_of(calls.context.principal.principal_id)
        return await run_sized(is_large(arguments), known.tokenized, arguments)

    async def release(self, calls: ExecutionCalls, target: CallTarget, arguments: dict[str, Any]) -> Release | None:
        """The tokens in the arguments of a call with their values, and what of known values a program that sees them
        has put there in another form; None if there is nothing of that.

        Raises:
            JournalUnavailable: the store of the tokens can't be used.
        """
        if (tokens := self._map) is None:
            return None
        has_many = is_large(arguments)
        principal = calls.context.principal.principal_id
        known, disguised, invented = dict[str, KnownToken](), dict[str, str](), dict[str, str]()
        if not isinstance(target, ResourceTarget):  # a token in a URI is no value
            named = await run_sized(has_many, tokens_in_any_case, arguments)
            meant = {token.upper() for token in named}
            found = await tokens.find(principal, {*meant, *map(first_of_its_kind, meant)})
            known = {token: it for token, it in found.items() if token in named}
            invented = never_made(self._config.settings.privacy, target, named, found)
            invented |= await run_sized(has_many, withheld_for, self._config.settings.privacy, target, arguments)
        if self._programs_see_values:
            texts = tokens.texts_of(principal)
            if isinstance(target, ResourceTarget):
                disguised = await run_sized(is_large(target.found.uri), kinds_in_uri, texts, target)
            else:
                disguised = await run_sized(has_many, texts.kinds_in, arguments)
        if not known and not disguised and not invented:
            return None
        try:
            sent = await run_sized(has_many, arguments_to_send, target, arguments, known)
        except NotPlaceable as error:
            return Release(arguments, known, disguised, invented, str(error))
        return Release(sent, known, disguised, invented)

    def restriction(self, target: CallTarget, release: Release | None) -> Deny | Ask | None:
        """What holds for a call because of the values that it would send, and since its answer has to be protected;
        None if nothing does."""
        if (refusal := self._refusal(target)) is not None or release is None:
            return refusal
        return restriction_of(self._config.settings.privacy, target, release)

    async def sent(
        self, calls: ExecutionCalls, target: CallTarget, arguments: dict[str, Any], decided: Release | None
    ) -> dict[str, Any]:
        """What the upstream receives, by what the tokens stand for at this moment: those that the decision was about.
        A token that was made later stays as it is written. What queries in it name is remembered from now on.

        Raises:
            CallRefused: the person has forgotten a token meanwhile.
            JournalUnavailable: the store of the tokens can't be used.
        """
        if self.mode_of(target.server) != "values":
            await self._query_names.note(calls, target, arguments)
        if (tokens := self._map) is None or decided is None:
            return arguments
        known = await tokens.find(calls.context.principal.principal_id, decided.known)
        now = replace(decided, known=known)
        if now.forgotten:
            restriction = self.restriction(target, now)
            raise CallRefused(f"{title_of(target)} was not called: {restriction.reason if restriction else ''}")
        try:
            return await run_sized(is_large(arguments), arguments_to_send, target, arguments, known)
        except NotPlaceable as error:  # since guardrails have changed the arguments
            raise CallRefused(f"{title_of(target)} was not called: {error}") from error

    async def received(
        self, calls: ExecutionCalls, target: CallTarget, arguments: Arguments, release: Release | None, reply: Reply
    ) -> Reply:
        """The answer to a call with these arguments, with tokens in place of personal data, and of the values that the
        call has sent.

        Raises:
            ResultWithheld: it can't be handed on.
        """
        mode = self.mode_of(target.server)
        sent = sent_values(self._config.settings.privacy, release)
        if mode == "values" and not sent:
            return reply
        is_raw = isinstance(target, PromptTarget) or (isinstance(target, ToolTarget) and target.is_raw)
        has_blocks = is_raw or reply.encoding == "blocks"
        bare, binary = without_binary(reply) if has_blocks else (reply.value, [])
        if mode == "values":
            shown, parts = await without_echo(bare, await read_files(binary), sent)
            return replace(reply, value=with_binary(shown, [*binary, *parts]))
        message = UpstreamMessage(calls, target, arguments, result_withheld(target))
        is_declared = reply.encoding == "json" and not is_raw
        schema = target.tool.definition.output_schema if isinstance(target, ToolTarget) and is_declared else None
        principal, fields = calls.context.principal, await self._query_names.of(calls, target, arguments)
        found = await self._detection.find(principal, bare, schema, withheld=message.withheld, fields=fields)
        if has_blocks:
            found = without_protocol_words(found)
        if not found.is_complete:
            raise ResultWithheld(
                f"{message.withheld}: it is too large to be searched for personal data, which privacy.servers asks for"
                "; ask for less of it"
            )
        files = await searched_files(self._detection, principal, binary, message.withheld, fields)
        everything = (*found.found, *(it for file in files if file.found.is_complete for it in file.found.found))
        if mode == "block" and (everything or not all(file.found.is_complete for file in files)):
            kinds = ", ".join(sorted({it.kind for it in everything})) or "in a file that is too large to be searched"
            raise ResultWithheld(
                f"{message.withheld}: it has personal data ({kinds}), and privacy.servers in upstream.yaml says `block`"
                f" for {target.server.raw_name}"
            )
        tokens = await tokens_of(self._map, self._config.settings.privacy, message, everything)
        if found.found:
            bare = await run_sized(is_large(bare), replaced, bare, found.found, tokens)
        shown = await self._without_known(message, bare)
        texts = [await self._text(message, file.read.text, file.found, tokens) for file in files]
        shown, parts = await without_echo(shown, [it.read for it in files], sent, texts)
        if found.found or shown != bare:
            self._explanations.add(calls)
        return replace(reply, value=with_binary(shown, [*binary, *parts]))

    async def _without_known(self, message: UpstreamMessage, value: JsonValue) -> JsonValue:
        """A value with tokens in place of values that have one already, as a program gets it that sees tokens."""
        if (tokens := self._map) is None or self._programs_see_values:
            return value
        known = tokens.texts_of(message.calls.context.principal.principal_id)
        server = message.target.server.raw_name
        has_many = is_large(value) or is_large(message.arguments)
        return await run_sized(has_many, without_known, known, value, server, message.sent_dates)

    async def for_program(self, calls: ExecutionCalls, target: CallTarget, reply: Reply) -> Reply:
        """What the program gets: the values, if the configuration says so.

        Raises:
            ResultWithheld: the store of the tokens can't be used.
        """
        tokens = self._map if self._programs_see_values else None
        if tokens is None or self.mode_of(target.server) == "values":
            return reply
        has_many = is_large(reply.value)
        named = await run_sized(has_many, tokens_in, reply.value)
        try:
            known = await tokens.find(calls.context.principal.principal_id, named)
        except JournalUnavailable as error:
            raise ResultWithheld(f"{result_withheld(target)}: {error}") from error
        if not (values := values_of(known)):
            return reply
        put = partial(with_values, is_sent=False)
        shown = replace(reply, value=await run_sized(has_many, put, reply.value, values))
        note_other_spellings(calls, target.server.raw_name, reply, shown)
        return shown

    async def error_text(
        self, calls: ExecutionCalls, target: CallTarget, arguments: dict[str, Any], error: CallError
    ) -> str:
        """The text of an error of a call with these arguments, without secrets and with tokens in place of personal
        data."""
        text = without_known_values(calls.context.redactor, target.server, error, arguments)
        if self.mode_of(target.server) == "values":
            return text
        if len(text) > MAX_ERROR_CHARACTERS:
            return "it failed with an error that is too long to be searched for personal data"
        try:
            with anyio.CancelScope(shield=True):  # the outcome is still to be recorded
                message = UpstreamMessage(calls, target, arguments, error_withheld(target))
                principal = calls.context.principal
                if isinstance(error, OWN_ERRORS):
                    found = await self._detection.find_without_names(principal, text)
                else:
                    fields = await self._query_names.of(calls, target, arguments)
                    found = await self._detection.find(principal, text, withheld=message.withheld, fields=fields)
                tokens = await tokens_of(
                    self._map, self._config.settings.privacy, message, found.found if found.is_complete else ()
                )
                text = await self._text(message, text, found, tokens)
        except ResultWithheld as withheld:
            return str(withheld)
        return text

    async def _text(self, message: UpstreamMessage, text: str, found: Findings, tokens: TokensOf) -> str:
        """A text of a protected server with these tokens in place of what was found in it."""
        if not found.is_complete:
            return "[a text that is too large to be searched for personal data]"
        if found.found:
            text = str(await run_sized(is_large(text), replaced, text, found.found, tokens))
        return str(await self._without_known(message, text))

    async def protected(
        self, calls: ExecutionCalls, target: CallTarget, arguments: Arguments, value: JsonValue
    ) -> JsonValue:
        """What a server asks of the host during a call with these arguments, with tokens in place of personal data.

        Raises:
            ResultWithheld: it can't be searched, or the store of the tokens can't be used.
        """
        if self._is_private(target) and isinstance(value, dict) and "messages" in value:
            raise ResultWithheld(f"{target.server.name} may not ask a model: privacy.private_free_text forbids it")
        if self.mode_of(target.server) == "values":
            return value
        message = UpstreamMessage(calls, target, arguments, question_withheld(target))
        found = await self._detection.find(calls.context.principal, value, withheld=message.withheld)
        if not found.is_complete:
            raise ResultWithheld(f"{message.withheld}: it is too large to be searched for personal data")
        tokens = await tokens_of(self._map, self._config.settings.privacy, message, found.found)
        return await self._without_known(
            message, await run_sized(is_large(value), replaced, value, found.found, tokens)
        )

    async def require_shareable(self, calls: ExecutionCalls, target: CallTarget, address: str) -> None:
        """Check an address that a server asks the person to open. The host sees it as it is: a token leads nowhere.

        Raises:
            ResultWithheld: it has personal data, which the model is told too.
        """
        if (tokens := self._map) is not None:
            known = tokens.texts_of(calls.context.principal.principal_id)
            principal = calls.context.principal if self.mode_of(target.server) != "values" else None
            kinds = await kinds_in_address(address, known, self._detection, principal)
            require_none(kinds, target.server.name, calls.messages)

    def masked(self, calls: ExecutionCalls, target: CallTarget, text: str) -> str:
        """A short text of a server for the host; personal data that has no token yet becomes its kind: `<EMAIL>`."""
        if self._is_private(target):
            return ""
        server = target.server
        text = calls.context.redactor.text(text)
        if self.mode_of(server) == "values":
            return text
        if (tokens := self._map) is not None and not self._programs_see_values:
            text = str(without_known_dates(tokens.texts_of(calls.context.principal.principal_id), text))
        found = self._detection.find_at_once(calls.context.principal, text)
        if not found.is_complete:
            return ""
        kinds = {(it.kind, it.value): f"<{label_of(it.kind)}>" for it in found.found}
        return str(replaced(text, found.found, kinds))

    def _is_private(self, target: CallTarget) -> bool:
        """Whether no text of this server may reach the model while it is called."""
        return self._config.settings.privacy.private_free_text == "forbid" and PRIVATE in self._labels.of(target)

    async def impersonal(self, principal: Principal, server: Server, texts: tuple[str, ...]) -> tuple[str, ...]:
        """Those texts of a server that have no personal data which the host of a principal must not get."""
        if self.mode_of(server) == "values":
            return texts
        try:
            withheld = f"what {server.name} proposes is withheld"
            found = await self._detection.find(principal, [*texts], withheld=withheld)
        except ResultWithheld:
            return ()
        personal = {it.place[0] for it in found.found}
        if (tokens := self._map) is not None:  # also birth dates, which a redactor may leave
            known = tokens.texts_of(principal.principal_id)
            personal |= {*(await run_sized(is_large(texts), found_in, known, [*texts])).in_others}
        return tuple(text for at, text in enumerate(texts) if at not in personal) if found.is_complete else ()

    async def load(self) -> None:
        """Load what takes long, so that the first result does not wait for it."""
        await self._detection.load()


def call_privacy(config: LiveConfig, store: TokenStore) -> CallPrivacy:
    """The protection of a product, as its configuration asks for it; the redactors of `config` use it from now on.

    Raises:
        SettingsError: servers are to be protected, and the detection is not installed.
    """
    settings = config.settings.privacy
    if settings.is_on and (lacking := missing(settings.models)):
        raise SettingsError(f"privacy: {lacking.reason}: {lacking.command}")
    privacy = CallPrivacy(config, TokenMap(store))
    config.values_of = privacy.values_of
    return privacy
