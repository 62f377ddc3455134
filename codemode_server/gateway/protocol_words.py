"""Keeps the words of the protocol in content blocks, such as `"type": "text"`, from counting as personal data.

After a query that can't be read with certainty any text of an answer may be a name. Only these words are left out, in
their places: a server may write anything else there.
"""

from __future__ import annotations

import mimetypes
from dataclasses import replace

from codemode_server.privacy.findings import Finding, Findings

_ROLES = frozenset({"user", "assistant"})
_WORDS = {
    "type": frozenset({"text", "image", "audio", "resource", "resource_link", "json"}),
    "mimeType": frozenset(mimetypes.types_map.values()),
    "role": _ROLES,
    "audience": _ROLES,
}


def without_protocol_words(findings: Findings) -> Findings:
    """What was found in content blocks, or in a raw result, without these words."""
    found = tuple(it for it in findings.found if not _is_word(it))
    return findings if len(found) == len(findings.found) else replace(findings, found=found)


def _is_word(finding: Finding) -> bool:
    place = finding.place[:-1] if finding.place[-2:-1] == ("audience",) else finding.place
    return bool(place) and isinstance(place[-1], str) and finding.value in _WORDS.get(place[-1], ())
