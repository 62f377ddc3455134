"""`config check` tells what was understood, on one page."""

from __future__ import annotations

from typing import TYPE_CHECKING

from codemode_server.config.description import describe
from tests.tables import tables

if TYPE_CHECKING:
    from tests.config.conftest import Folder

TABLES = tables(__file__)


def test_the_description_is_what_was_understood(folder: Folder) -> None:
    environ = {"GITHUB_TOKEN": "ghp-0123456789", "WEB_TOKEN": "web-0123456789"}
    described = describe(folder.load(TABLES["configuration"], env=environ))
    expected: str = TABLES["page"]
    assert described == expected.rstrip("\n").replace("{here}", str(folder.path))
