"""Recognises tokens of widely used services, which are secrets wherever they stand."""

from __future__ import annotations

import re

KNOWN_TOKEN = re.compile(
    r"(?<![\w-])(?:gh[pousr]_\w{20,}|github_pat_\w{20,}|glpat-[\w-]{16,}|sk-[\w-]{16,}|xox[abeoprs]-[\w-]{10,}"
    r"|AKIA[0-9A-Z]{16}|AIza[\w-]{30,}|lin_api_\w{20,}|ntn_\w{20,}|secret_\w{20,}|hf_\w{20,}|npm_\w{20,}|figd_[\w-]{20,}"
    r"|pat[A-Za-z0-9]{14}\.\w{20,}|shpat_\w{20,}|[rs]k_(?:live|test)_\w{16,}|SG\.[\w-]{16,}\.[\w-]{16,}"
    r"|eyJ[\w-]{10,}\.[\w-]{10,}\.[\w-]*)(?![\w-])"
)


def has_known_token(text: str) -> bool:
    """Whether there is a token of a widely used service in the text."""
    return KNOWN_TOKEN.search(text) is not None
