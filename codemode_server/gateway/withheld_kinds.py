"""Finds in arguments what the product shows in place of personal data without a token: `<BIRTH_DATE>`, `<EMAIL>`."""

from __future__ import annotations

from collections.abc import Sequence

from codemode_server.domain.ids import JsonValue
from codemode_server.domain.privacy_tokens import label_of
from codemode_server.json_texts import texts_in
from codemode_server.privacy.findings import Kind
from codemode_server.privacy_settings import PrivacySettings

_BIRTH_DATE = label_of(Kind.BIRTH_DATE)


def withheld_in(settings: PrivacySettings, arguments: JsonValue) -> dict[str, str]:
    """Each with its kind. `<BIRTH_DATE>` is in results, which programs put into texts, so it counts anywhere, but for
    elements of XML; the others are in log messages and listings, and count as whole texts."""
    kinds = {f"<{label_of(kind)}>": kind for kind in settings.kinds}
    found: dict[str, str] = {}
    for text in texts_in(arguments):
        if "<" not in text:
            continue
        if (whole := text.strip()) in kinds:
            found[whole] = kinds[whole]
        elif f"<{_BIRTH_DATE}>" in text and f"</{_BIRTH_DATE}>" not in text:
            found[f"<{_BIRTH_DATE}>"] = Kind.BIRTH_DATE
    return found


def why_refused(withheld: Sequence[str]) -> str:
    """What a program is told whose arguments have these."""
    if f"<{_BIRTH_DATE}>" in withheld:
        return (
            f"the arguments have <{_BIRTH_DATE}>, which is no privacy token: results have it for birth dates where the "
            "arguments of the call had dates; read these records with a call without dates, for instance by their ids, "
            "and pass the tokens"
        )
    return f"the arguments have {withheld[0]}, which is no privacy token: pass tokens exactly as results show them"
