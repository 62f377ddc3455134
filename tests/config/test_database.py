"""`state.database` and its password: how they may be written, and that the password is shown nowhere."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from codemode_server.config.description import describe
from codemode_server.secrets.encrypted_files import EncryptedFileStore
from codemode_server.startup.stores import database_place
from codemode_server.storage.database import PostgresAddress

if TYPE_CHECKING:
    from tests.config.conftest import Folder

ADDRESS = "postgresql://ann@db.example.org/work?sslmode=require"
PASSWORD = "Z7kQ9xw41LmN0pR2"


@pytest.mark.parametrize("written", [PASSWORD, "${DATABASE_PASSWORD}", "${keyring:database}"])
def test_the_password_is_a_secret_however_it_is_written(folder: Folder, written: str) -> None:
    EncryptedFileStore(folder.path / "state").set("database", PASSWORD)
    loaded = folder.load(
        f"state: {{dir: state, database: '{ADDRESS}', database_password: '{written}'}}",
        env={"DATABASE_PASSWORD": PASSWORD},
    )
    place = database_place(loaded.settings)
    assert place == PostgresAddress(ADDRESS, PASSWORD)
    assert PASSWORD in loaded.secrets
    for shown in (repr(place), repr(loaded), describe(loaded)):
        assert PASSWORD not in shown
    assert "db.example.org/work" in describe(loaded)


def test_without_an_address_it_is_sqlite_in_the_state_folder(folder: Folder) -> None:
    assert database_place(folder.load("state: {dir: state}").settings) == folder.path / "state"


@pytest.mark.parametrize(
    ("address", "reason"),
    [
        (f"postgresql://ann:{PASSWORD}@host/work", "may hold no password; set `database_password`"),
        (f"postgresql://host/work?password={PASSWORD}", "may hold no password; set `database_password`"),
        ("mysql://host/work", "is not of the form `postgresql://USER@HOST/NAME`"),
        ("postgresql://host", "is not of the form `postgresql://USER@HOST/NAME`"),
        ("postgresql://host:port/work", "is not of the form `postgresql://USER@HOST/NAME`"),
    ],
)
def test_an_address_of_another_form_is_refused(folder: Folder, address: str, reason: str) -> None:
    (line,) = folder.refusal(f"state: {{database: '{address}'}}")
    assert line.startswith(f"upstream.yaml:1: state.database: {reason}")
    assert PASSWORD not in line


def test_a_database_for_several_servers_without_a_key_for_all_is_warned_of(folder: Folder) -> None:
    (warning,) = folder.load(f"state: {{database: '{ADDRESS}'}}").warnings
    assert warning.startswith("upstream.yaml:1: state.database: without `state.key` each server makes a key of its own")
    assert "CODEMODE_KEY=$(openssl rand -hex 32)" in warning
    with_key = f"state: {{database: '{ADDRESS}', key: '${{CODEMODE_KEY}}'}}"
    assert folder.load(with_key, env={"CODEMODE_KEY": "k" * 64}).warnings == ()
    assert folder.load("state: {dir: state}").warnings == (), "one server on SQLite"
