"""Programs as models write them, by name: each prints something deterministic when `servers.github` offers
`list_issues(repo, state=None)` and `boom()`, which raises."""

from __future__ import annotations

from tests.tables import tables

PROGRAMS: list[tuple[str, str]] = [*tables(__file__).items()]
