"""The form of a personal value in which equal values are equal, by its kind."""

from __future__ import annotations

import ipaddress
import re
import unicodedata

from codemode_server.privacy.findings import Kind

_SEPARATORS = re.compile(r"[\s./()-]+")
_NO_DIGIT = re.compile(r"\D+")


def normal_form(kind: str, value: str, regions: tuple[str, ...]) -> str:
    """`Ann@X.org` and `ann@x.org` are one address, `+49 30 901820` and `0049-30-901820` one number. `regions` are the
    countries whose national phone numbers are known.

    Values that differ in a letter or digit are different: whoever gives `ann@fass.de` says nothing of `ann@faß.de`.
    """
    text = unicodedata.normalize("NFC", value).strip()
    match kind:
        case Kind.PHONE:
            return _phone(text, regions)
        case Kind.CARD | Kind.IBAN | Kind.NATIONAL_ID:
            return _SEPARATORS.sub("", text).upper() if text.isascii() else text
        case Kind.IP:
            try:
                return str(ipaddress.ip_address(text))
            except ValueError:
                return text
        case Kind.EMAIL | Kind.NAME | Kind.ADDRESS:
            return spelling(text)
        case _:
            return text


def spelling(text: str) -> str:
    """A text without what its letter case and white space say."""
    return " ".join(unicodedata.normalize("NFC", text).lower().split())


def _phone(text: str, regions: tuple[str, ...]) -> str:
    """In E.164 with the extension, where that is certain; else without separators."""
    import phonenumbers

    text = f"+{text[2:]}" if text.startswith("00") else text
    digits = _NO_DIGIT.sub("", text)
    for region in (None,) if text.startswith("+") else regions:
        try:
            number = phonenumbers.parse(text, region)
        except phonenumbers.NumberParseException:
            continue
        extension = number.extension or ""
        has_all = digits.endswith(phonenumbers.national_significant_number(number) + extension)
        if has_all and phonenumbers.is_valid_number(number):
            whole = str(phonenumbers.format_number(number, phonenumbers.PhoneNumberFormat.E164))
            return f"{whole};{extension}" if extension else whole
    return _SEPARATORS.sub("", text)
