"""The kinds of personal data, and findings with their confidence and place."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Kind(StrEnum):
    """The kind of a finding. Patterns of the user have names of their own."""

    EMAIL = "email"
    PHONE = "phone"
    CARD = "card"
    IBAN = "iban"
    NATIONAL_ID = "national_id"
    """Number of a person or a business for a state: tax, social security, identity."""
    IP = "ip"
    ADDRESS = "address"
    """Street and number, or what a field named so holds."""
    CREDENTIAL = "credential"
    BIRTH_DATE = "birth_date"
    NAME = "name"


Place = tuple[str | int, ...]
"""Keys and indexes that lead to a value in a JSON value; a `Wrapping` leads into the value that a text there holds."""

DEFAULT_THRESHOLD = 0.6
REGIONS = ("US", "GB", "DE", "FR", "ES", "IT", "BR", "PT", "NL")
"""Countries whose national phone numbers are recognised. International ones always are."""
MAX_FINDINGS = 50_000
"""Maximum number of findings in one value; a search that meets more ends and says that it is incomplete."""
MAX_DEPTH = 200


@dataclass(frozen=True, slots=True)
class Finding:
    """One piece of personal data."""

    kind: str
    value: str
    confidence: float
    """From 0 to 1: 0.9 and more has a checksum or a syntax of its own, or a field that says so. Only
    tests read it: what is below its threshold is no finding."""
    place: Place = ()
    """Where the text is in the value; empty in a text of its own. A key that is a finding has `is_key`."""
    start: int = 0
    end: int = 0
    """Part of the text that was found. A number is searched as its decimal digits."""
    is_key: bool = False
    is_number: bool = False
    """True if it is a number in JSON."""


@dataclass(frozen=True, slots=True)
class Findings:
    """All that was found in one value, in its order."""

    found: tuple[Finding, ...] = ()
    is_complete: bool = True
    """False if the value has more than `MAX_VALUES`, `MAX_DEPTH` or `MAX_FINDINGS`: the rest was not searched, and who
    protects data has to treat the whole value as personal."""


class RecognizerFailed(Exception):
    """Raised when free text could not be searched for names. Its text has nothing of what was searched."""
