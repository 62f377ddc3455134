"""Members of the standard library that the sandbox replaces with its own."""

from __future__ import annotations

from typing import Any


def replace_members(owner: Any, **members: Any) -> None:
    """Give a module or class of the library other members; a plain assignment is what a type checker forbids."""
    for name, member in members.items():
        setattr(owner, name, member)
