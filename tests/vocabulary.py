"""The real vocabulary of o200k, to hold estimates and budgets against."""

from __future__ import annotations

import warnings
from functools import cache
from typing import Any


@cache
def _vocabulary() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # how it reads its own data
        import bpe_openai
    return bpe_openai.get_encoding("o200k_base")


def tokens_of(text: str) -> int:
    """How many tokens of o200k `text` is, exactly."""
    return len(_vocabulary().encode(text, disallowed_special=()))
