"""The form of a personal value in which equal values are equal, by its kind."""

from __future__ import annotations

import ipaddress
import re
import unicodedata

from codemode_server.privacy.findings import Kind

_SEPARATORS = re.compile(r"[\s./()-]+")


def normal_form(kind: str, value: str, regions: tuple[str, ...]) -> str:
    """`Ann@X.org` and `ann@x.org` are one address, `+49 30 901820` and `0049-30-901820` one number. `regions` are the
    countries whose national phone numbers are known."""
    text = unicodedata.normalize("NFKC", value).strip()
    match kind:
        case Kind.PHONE:
            return _phone(text, regions)
        case Kind.CARD | Kind.IBAN | Kind.NATIONAL_ID:
            return _SEPARATORS.sub("", text).upper()
        case Kind.IP:
            try:
                return str(ipaddress.ip_address(text))
            except ValueError:
                return text
        case Kind.EMAIL | Kind.NAME | Kind.ADDRESS:
            return " ".join(text.casefold().split())
        case _:
            return text


def _phone(text: str, regions: tuple[str, ...]) -> str:
    """In E.164, where that is certain; else the digits."""
    import phonenumbers

    text = f"+{text[2:]}" if text.startswith("00") else text
    for region in (None,) if text.startswith("+") else regions:
        try:
            number = phonenumbers.parse(text, region)
        except phonenumbers.NumberParseException:
            continue
        if phonenumbers.is_valid_number(number):
            return str(phonenumbers.format_number(number, phonenumbers.PhoneNumberFormat.E164))
    return _SEPARATORS.sub("", text)
