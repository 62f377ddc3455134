"""The guardrail `personal_data`: no personal data in the arguments of a call, but for what its tool may receive.

It looks at texts, names of fields and long numbers as `privacy.detector` finds them; texts also percent-decoded,
without characters that nobody sees, and with full-width letters as plain ones. What a program encodes in another way,
splits or rewrites is not found. Reasons name kinds and arguments, never values.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

from codemode_server.features.guardrails.builtin.texts import ArgumentsGuardrail, Unreadable, spellings_of, texts_of
from codemode_server.features.guardrails.guardrail import GuardedCall
from codemode_server.features.privacy.detector import Detector
from codemode_server.features.privacy.settings import ALL_KINDS, DetectionFields
from codemode_server.support.extras import has_privacy, install_command

MAX_CHARACTERS = 1_000_000
"""Maximum length of all texts of the arguments: the slowest to search take some 3 s of processor time."""


class PersonalDataSettings(DetectionFields):
    action: Literal["block", "ask"] = "block"


class PersonalDataGuardrail(ArgumentsGuardrail):
    """Blocks calls with personal data that their tool may not receive."""

    Settings = PersonalDataSettings

    def __init__(self, settings: PersonalDataSettings) -> None:
        """Raises ModuleNotFoundError without the libraries that numbers are checked with."""
        super().__init__(settings)
        if not has_privacy():
            raise ModuleNotFoundError(f"it needs an optional part: {install_command('privacy')}")
        self._detector = Detector(settings)

    def problem(self, call: GuardedCall) -> str:
        released = self._released(call)
        if ALL_KINDS in released:
            return ""
        for place, kind in self._found(call.arguments):
            if kind not in released:
                return (
                    f"{place} of the arguments holds personal data (kind {kind}), which {call.server}/{call.tool} may"
                    " not receive; `release` in the settings of the guardrail names who may"
                )
        return ""

    def _released(self, call: GuardedCall) -> frozenset[str]:
        release: dict[str, tuple[str, ...]] = self.settings.release
        return frozenset(kind for glob, kinds in release.items() if call.matches(glob) for kind in kinds)

    def _found(self, arguments: dict[str, Any]) -> Iterator[tuple[str, str]]:
        if sum(len(text) for _, text in texts_of(arguments)) > MAX_CHARACTERS:
            raise Unreadable(f"the arguments have more than {MAX_CHARACTERS:,} characters, and are not searched")
        findings = self._detector.in_value(arguments)
        for one in findings.found:
            is_name = one.is_key and len(one.place) == 1
            yield "a name" if is_name else repr(one.place[0]), one.kind
        for place, text in texts_of(arguments):
            for spelling in spellings_of(text):
                if spelling != text:
                    read = self._detector.in_value(spelling)
                    yield from ((place, one.kind) for one in read.found)
                    _check(read.is_complete)
        _check(findings.is_complete)


def _check(is_complete: bool) -> None:
    if not is_complete:
        raise Unreadable("the arguments are too large to be searched for personal data")
