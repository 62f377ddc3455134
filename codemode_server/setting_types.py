"""What the models of settings share: their base class, types of fields, and the error that belongs to one key."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field
from pydantic_core import PydanticCustomError


def _not_a_claim(value: object) -> object:
    """Python counts True as 1; a person who writes `timeout: yes` means something else."""
    if isinstance(value, bool):
        raise ValueError("must be a number, not true or false")  # noqa: TRY004 - pydantic takes ValueError only
    return value


Number = Annotated[int, BeforeValidator(_not_a_claim)]
Seconds = Annotated[float, BeforeValidator(_not_a_claim), Field(gt=0, le=86_400)]


class Section(BaseModel):
    """One mapping of `upstream.yaml`. The docstring under each field is its documentation in the JSON Schema.

    Not `use_attribute_docstrings`: it parses the source at each import, 40 ms before the host's handshake.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)


class ProblemWithin(PydanticCustomError):
    """A refusal that belongs to one key or item of what is being validated, and is shown there."""

    def __new__(cls, message: str, member: str | int) -> Self:
        return super().__new__(cls, "problem_within", "{message}", {"message": message, "member": member})
