"""What replica and node tell each other, as models: each message is parsed once, where it arrives."""

from __future__ import annotations

from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from codemode_server.domain.executions import IsolationLevel
from codemode_server.sandbox.backends.remote.link import LinkLost
from codemode_server.sandbox.contract import Ending, Limits

MAX_TOKEN_BYTES = 1_000
REPLICA_PATIENCE_S = 4.0
NODE_PATIENCE_S = 15.0
"""Longer: a replica that is so late only keeps a sandbox busy."""
M = TypeVar("M", bound=BaseModel)


class _Message(BaseModel):
    model_config = ConfigDict(frozen=True)


class RemoteProgram(_Message):
    """What a node knows of a program beside its frames."""

    execution_id: str
    session_id: str
    is_last: bool
    limits: Limits
    workspace: str | None
    """Name of the folder in `--workspaces`."""
    level: IsolationLevel
    """The isolation that it needs."""


class Request(_Message):
    version: str
    program: RemoteProgram | None = None
    """None: the replica only asks how the node is."""


class NodeState(_Message):
    """`problem`: the program was refused, before anything of it was sent."""

    level: IsolationLevel
    importable: list[str] | None = Field(default=None, max_length=10_000)
    has_workspace: bool = False
    """Of a program: it has one. Otherwise: programs can have one."""
    busy: int = 0
    programs: int = 0
    """How many run at once, at most."""
    problem: str = Field(default="", max_length=2_000)
    setting: str | None = Field(default=None, max_length=100)
    """The limit that the program has passed before it began."""
    is_temporary: bool = False


class EndError(_Message):
    type: str = Field(max_length=200)
    message: str = Field(max_length=20_000)
    setting: str | None = Field(default=None, max_length=100)


class Ended(_Message):
    """How a program ended, as far as the node knows. Where it came to its end, the replica knows more."""

    ending: Ending
    error: EndError | None = None


def parsed(model: type[M], message: dict[str, Any]) -> M:
    """Raises `LinkLost` if the message is another."""
    try:
        return model.model_validate(message)
    except ValidationError:
        raise LinkLost("it sent another message than was expected") from None
