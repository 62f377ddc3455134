"""Identifiers and the names of JSON types that all stages share."""

from __future__ import annotations

from typing import Any, NewType

ExecutionId = NewType("ExecutionId", str)
"""One `execute_code`, for instance `x7f3a9c21b04`."""

PrincipalId = NewType("PrincipalId", str)
"""Owner of workspaces, permissions and records; `default` unless configured."""

JsonValue = Any
"""Anything `json.loads` gives."""

JsonSchema = dict[str, Any]
"""A JSON Schema object as an upstream declared it, unchecked."""
