"""The detection of personal data under the settings in force, for `Privacy`. Nothing of it is imported before it is
used.

A value that can't be searched is withheld: one that is too large, and free text that the recognizer of names has failed
on.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from codemode_server.config.live import LiveConfig
from codemode_server.domain.errors import ResultWithheld
from codemode_server.domain.ids import JsonValue
from codemode_server.features.privacy.findings import Findings, RecognizerFailed
from codemode_server.features.privacy.settings import PrivacySettings
from codemode_server.support.extras import missing_privacy

if TYPE_CHECKING:
    from codemode_server.features.privacy.detector import Detector
    from codemode_server.features.privacy.name_recognizer import NameRecognizer


class Detection:
    """Built once. A recognizer is loaded once, and again only for other models."""

    def __init__(self, config: LiveConfig) -> None:
        self._config = config
        self._made: tuple[PrivacySettings, Detector] | None = None
        self._recognizer: NameRecognizer | None = None

    async def load(self) -> None:
        """Load the recognizer of the settings, so that the first search does not wait. If that fails, the log has the
        reason, and each search tries again."""
        settings = PrivacySettings.of(self._config.settings)
        if not settings.is_on or not settings.name_models or missing_privacy(settings.name_models):
            return
        if (recognizer := self.detector.recognizer) is not None:
            with suppress(RecognizerFailed):
                await recognizer.load()

    async def find(self, value: JsonValue, withheld: str) -> Findings:
        """The findings in a value of a server. `withheld` is how a refusal to hand it on begins: "what crm asks is
        withheld". Raises `ResultWithheld` if the recognizer of names has failed, or the value is too large."""
        try:
            found = await self.detector.find(value)
        except RecognizerFailed as error:
            raise ResultWithheld(
                f"{withheld}: it could not be searched for names, which "
                f"privacy.name_models in upstream.yaml asks for ({error}); `codemode-server doctor` and the log of the "
                "product say more to the user"
            ) from error
        if not found.is_complete:
            raise ResultWithheld(
                f"{withheld}: it is too large to be searched for personal data, which privacy.servers asks for; ask for"
                " less of it"
            )
        return found

    def find_at_once(self, text: str) -> Findings | None:
        """The findings in a short text; None for free text if a recognizer would have to search it."""
        from codemode_server.features.privacy.name_recognizer import is_free

        detector = self.detector
        return None if self._recognizer is not None and is_free(text) else detector.in_value(text)

    @property
    def detector(self) -> Detector:
        """Finds all but the names that only a recognizer finds."""
        settings = PrivacySettings.of(self._config.settings)
        if self._made is None or self._made[0] is not settings:
            from codemode_server.features.privacy.detector import Detector

            if not settings.name_models:
                self._recognizer = None
            elif self._recognizer is None or self._recognizer.models != settings.name_models:
                from codemode_server.features.privacy.name_recognizer import NameRecognizer

                self._recognizer = NameRecognizer(settings.name_models)
            self._made = settings, Detector(settings, self._recognizer)
        return self._made[1]
