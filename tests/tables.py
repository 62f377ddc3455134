"""Tables of cases in a YAML file beside the test that reads them: `test_calls.yaml` for `test_calls.py`.

A table is a mapping of names to rows, or a list of rows; a row of several arguments is a list.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML


def tables(test: str) -> dict[str, Any]:
    """The tables of a test file, by their names."""
    found: dict[str, Any] = YAML(typ="safe").load(Path(test).with_suffix(".yaml"))
    return found


def rows(table: Any) -> list[Any]:
    """Parameters of a test, one for each row of a table."""
    if isinstance(table, dict):
        return [pytest.param(*_arguments(row), id=name) for name, row in table.items()]
    return [pytest.param(*_arguments(row)) for row in table]


def _arguments(row: Any) -> list[Any]:
    return row if isinstance(row, list) else [row]
