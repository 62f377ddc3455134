"""A saved program, as the catalog and the search show it. No I/O."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Skill:
    """One saved program, importable as `skills.<name>`."""

    name: str
    summary: str
    """The first line of its docstring."""
    function: str = ""
    """The function to import from it: the one of its own name, else its first public one, if it has any."""
    signature: str = ""
    """Signature of that function, on one line."""

    @property
    def import_line(self) -> str:
        return f"from skills.{self.name} import {self.function}" if self.function else f"import skills.{self.name}"
