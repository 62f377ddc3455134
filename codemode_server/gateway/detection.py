"""The detection of personal data under the settings in force, for `CallPrivacy`. Nothing of it is imported before it is
used.

What it can't search is withheld: a value that is too large, and free text that the recognizer of names has failed on.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from codemode_server.config.live import LiveConfig
from codemode_server.domain.errors import ResultWithheld
from codemode_server.domain.ids import JsonValue
from codemode_server.domain.privacy_tokens import TOKEN
from codemode_server.off_loop import is_large, run_sized
from codemode_server.privacy.findings import Findings, RecognizerFailed
from codemode_server.privacy_packages import missing
from codemode_server.privacy_settings import PrivacySettings

if TYPE_CHECKING:
    from codemode_server.privacy.detector import Detector
    from codemode_server.privacy.name_recognizer import NameRecognizer
    from codemode_server.privacy.renamed_fields import RenamedFields


class Detection:
    """Built once. A recognizer is loaded once, and again only for other models."""

    def __init__(self, config: LiveConfig) -> None:
        self._config = config
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
        value: JsonValue,
        schema: dict[str, Any] | None = None,
        *,
        withheld: str,
        fields: RenamedFields | None = None,
    ) -> Findings:
        """What a value of a server holds. A token is no finding, whatever its field is called. `withheld` is how a
        refusal to hand it on begins: "what crm asks is withheld". `fields` are what a query has named.

        Raises:
            ResultWithheld: the recognizer of names has failed.
        """
        try:
            given = () if fields is None else (fields,)
            return _without_tokens(await self._current().find(value, schema, *given))
        except RecognizerFailed as error:
            raise ResultWithheld(
                f"{withheld}: it could not be searched for names, which "
                f"privacy.recognizer in upstream.yaml asks for ({error}); `codemode-server doctor` and the log of the "
                "product say more to the user"
            ) from error

    async def find_without_names(self, text: str) -> Findings:
        """What a text holds without the names that only a recognizer finds."""
        return _without_tokens(await run_sized(is_large(text), self._current().in_text, text))

    def find_at_once(self, text: str) -> Findings:
        """What a short text holds. Free text can't be searched for names at once, so it counts as not searched."""
        from codemode_server.privacy.free_text import is_free

        found = _without_tokens(self._current().in_text(text))
        return replace(found, is_complete=False) if self._recognizer is not None and is_free(text) else found

    def allows(self, value: str) -> bool:
        """Whether the settings say that a value is not personal."""
        return self._current().allows(value)

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


def _without_tokens(findings: Findings) -> Findings:
    if not any(TOKEN.fullmatch(it.value) for it in findings.found):
        return findings
    return replace(findings, found=tuple(it for it in findings.found if not TOKEN.fullmatch(it.value)))
