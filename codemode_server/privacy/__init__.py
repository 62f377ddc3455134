"""Detection of personal data in results and texts, and the tokens that stand for it.

The guardrail `personal_data` and the gateway's `CallPrivacy` ask it. It needs the libraries of the extra `privacy`.
"""

from functools import cache
from importlib.util import find_spec

_LIBRARIES = ("phonenumbers", "stdnum")


@cache
def is_installed() -> bool:
    """Whether the libraries of the extra are there; looked for once."""
    return all(find_spec(name) is not None for name in _LIBRARIES)
