"""Finds in arguments what the product shows in place of personal data and is no token: `<BIRTH_DATE>`, `<EMAIL>`,
`<part of EMAIL_1>`."""

from __future__ import annotations

import re
from collections.abc import Sequence

from codemode_server.domain.ids import JsonValue
from codemode_server.domain.privacy_tokens import label_of
from codemode_server.json_texts import texts_in
from codemode_server.privacy.findings import Kind
from codemode_server.privacy_settings import PrivacySettings

_BIRTH_DATE = label_of(Kind.BIRTH_DATE)
_PART = re.compile(r"<part of ([A-Z][A-Z0-9_]{0,40})_[1-9][0-9]{0,8}>")
_QUOTED_PART = re.compile(rf"(?<=['\"`%]){_PART.pattern}(?=['\"`%])")


def withheld_in(settings: PrivacySettings, arguments: JsonValue) -> dict[str, str]:
    """Each with its kind. `<BIRTH_DATE>` is in results, which programs put into texts, so it counts anywhere, but for
    elements of XML; the others are in log messages and listings, and count as whole texts. What stands for a part of a
    value counts in quotation marks too: in a query it would find nothing."""
    kinds = {label_of(kind): kind for kind in settings.kinds}
    found: dict[str, str] = {}
    for text in texts_in(arguments):
        if "<" not in text:
            continue
        if (kind := kinds.get(_label_in(text))) is not None:
            found[text.strip()] = kind
            continue
        if f"<{_BIRTH_DATE}>" in text and f"</{_BIRTH_DATE}>" not in text:
            found[f"<{_BIRTH_DATE}>"] = Kind.BIRTH_DATE
        found |= {part[0]: kinds[part[1]] for part in _QUOTED_PART.finditer(text) if part[1] in kinds}
    return found


def _label_in(text: str) -> str:
    """The label of a kind that a text is, or of the value of a part that it is; empty if it is neither."""
    whole = text.strip()
    if (part := _PART.fullmatch(whole)) is not None:
        return part[1]
    return whole[1:-1] if whole.startswith("<") and whole.endswith(">") else ""


def why_refused(withheld: Sequence[str]) -> str:
    """What a program is told whose arguments have these."""
    if f"<{_BIRTH_DATE}>" in withheld:
        return (
            f"the arguments have <{_BIRTH_DATE}>, which is no privacy token: results show it for birth dates if the "
            "arguments of the call contain dates; read these records with a call without dates, for instance by their "
            "ids, and pass the tokens"
        )
    if _PART.fullmatch(withheld[0]):
        return (
            f"the arguments have {withheld[0]}, which stands for a part of a value and is no privacy token: read a "
            "record that has the whole value, and pass the token there"
        )
    return f"the arguments have {withheld[0]}, which is no privacy token: pass tokens exactly as results show them"
