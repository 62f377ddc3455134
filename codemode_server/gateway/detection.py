"""The detection of personal data under the settings in force, for `CallPrivacy`. Nothing of it is imported before it is
used.

What it can't search is withheld: a value that is too large, and free text that the recognizer of names has failed on.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from codemode_server.config.live import LiveConfig
from codemode_server.domain.errors import ResultWithheld
from codemode_server.domain.ids import JsonValue
from codemode_server.domain.principals import Principal
from codemode_server.off_loop import is_large, run_sized
from codemode_server.privacy.findings import Findings, RecognizerFailed
from codemode_server.privacy_packages import missing
from codemode_server.privacy_settings import PrivacySettings

if TYPE_CHECKING:
    from codemode_server.privacy.detector import Detector
    from codemode_server.privacy.name_recognizer import NameRecognizer
    from codemode_server.privacy.own_texts import IsToken
    from codemode_server.privacy.renamed_fields import RenamedFields
    from codemode_server.privacy.token_map import TokenMap


class Detection:
    """Built once. A recognizer is loaded once, and again only for other models. Nothing is found within a token of the
    principal who gets the text."""

    def __init__(self, config: LiveConfig, tokens: TokenMap | None) -> None:
        self._config = config
        self._tokens = tokens
        self._made: tuple[PrivacySettings, Detector] | None = None
        self._recognizer: NameRecognizer | None = None

    async def load(self) -> None:
        """Load the recognizer of the settings, so that the first search does not wait. If that fails, the log has the
        reason, and each search tries again."""
        settings = self._config.settings.privacy
        if not settings.is_on or not settings.models or missing(settings.models):
            return
        self._current()
        if self._recognizer is not None:
            try:
                await self._recognizer.load()
            except RecognizerFailed:
                return

    async def find(
        self,
        principal: Principal,
        value: JsonValue,
        schema: dict[str, Any] | None = None,
        *,
        withheld: str,
        fields: RenamedFields | None = None,
    ) -> Findings:
        """What a value of a server holds. `withheld` is how a refusal to hand it on begins: "what crm asks is
        withheld". `fields` are what a query has named.

        Raises:
            ResultWithheld: the recognizer of names has failed.
        """
        try:
            given = {} if fields is None else {"fields": fields}
            return await self._current().find(value, schema, is_token=self._is_token(principal), **given)
        except RecognizerFailed as error:
            raise ResultWithheld(
                f"{withheld}: it could not be searched for names, which "
                f"privacy.recognizer in upstream.yaml asks for ({error}); `codemode-server doctor` and the log of the "
                "product say more to the user"
            ) from error

    async def find_without_names(self, principal: Principal, text: str) -> Findings:
        """What a text holds without the names that only a recognizer finds."""
        search = partial(self._current().in_text, is_token=self._is_token(principal))
        return await run_sized(is_large(text), search, text)

    def find_at_once(self, principal: Principal, text: str) -> Findings:
        """What a short text holds. Free text can't be searched for names at once, so it counts as not searched."""
        from codemode_server.privacy.free_text import is_free

        found = self._current().in_text(text, is_token=self._is_token(principal))
        return replace(found, is_complete=False) if self._recognizer is not None and is_free(text) else found

    def allows(self, value: str) -> bool:
        """Whether the settings say that a value is not personal."""
        return self._current().allows(value)

    def _is_token(self, principal: Principal) -> IsToken | None:
        return None if self._tokens is None else self._tokens.texts_of(principal.principal_id).has

    def _current(self) -> Detector:
        settings = self._config.settings.privacy
        if self._made is None or self._made[0] is not settings:
            from codemode_server.privacy.detector import Detector

            if not settings.models:
                self._recognizer = None
            elif self._recognizer is None or self._recognizer.models != settings.models:
                from codemode_server.privacy.name_recognizer import NameRecognizer

                self._recognizer = NameRecognizer(settings.models)
            self._made = settings, Detector(settings.detection, self._recognizer)
        return self._made[1]
