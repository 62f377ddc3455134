"""Tells whether the packages of the extras `privacy` and `privacy-names` are installed, and imports none of them."""

from __future__ import annotations

import sys
from functools import cache
from importlib.util import find_spec
from typing import NamedTuple

from codemode_server.extras import install_command

_LIBRARIES = ("phonenumbers", "stdnum")


class Missing(NamedTuple):
    """A missing package."""

    reason: str
    command: str
    """Installs it."""

    def __str__(self) -> str:
        return f"{self.reason} ({self.command})"


@cache
def is_installed() -> bool:
    """True if the libraries of the extra are installed; checked once."""
    return all(find_spec(name) is not None for name in _LIBRARIES)


@cache
def missing(models: tuple[str, ...] = ()) -> Missing | None:
    """Missing packages of the detection, with these models for names in free text if any; checked once."""
    if not is_installed():
        return Missing("the detection of personal data is not installed", install_command("privacy"))
    if models and find_spec("spacy") is None:
        return Missing("spaCy, which privacy.name_models asks for, is not installed", install_command("privacy-names"))
    for model in models:
        if find_spec(model) is None:
            why = f"the model {model}, which privacy.name_models asks for, is not installed"
            return Missing(why, f"{sys.executable} -m spacy download {model}")
    return None
