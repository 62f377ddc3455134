"""Commands that edit the configuration: no other server's secret, trusted content or copy changes with it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

from codemode_server import cli
from codemode_server.config import load, saving
from codemode_server.config.file_writing import added_variables
from codemode_server.config.loading import load_place
from codemode_server.config.places import Change, ConfigFile
from codemode_server.config.saving import EditedFile
from codemode_server.domain.errors import CodemodeError
from codemode_server.support.file_records import TrustRecord, is_trusted
from codemode_server.support.network_variables import NETWORK_VARIABLES

TEXT = "servers:\n  a: {command: x}\n"


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A configuration in a folder whose files need trust."""
    for variable in ("XDG_CONFIG_HOME", "XDG_DATA_HOME", "CODEMODE_CONFIG"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    folder = tmp_path / "project"
    folder.mkdir()
    monkeypatch.chdir(folder)
    (folder / "upstream.yaml").write_text(TEXT)
    return folder / "upstream.yaml"


def add(file: Path, name: str, value: str) -> int:
    words = ["--config", str(file), "--no-test", "-e", f"API_KEY={value}", name, "--", "true"]
    return cli.run(["add", *words])


class TestSecrets:
    @contextmanager
    def changing(self, file: Path, storing: AbstractContextManager[Change | None]) -> Iterator[Change | None]:
        """An editor writes the file at the worst time: once the secret is stored."""
        with storing as change:
            assert "KEY='value'" in file.with_name(".env").read_text(), "control"
            file.write_text(TEXT + "# somebody else's\n")
            yield change

    def test_servers_added_at_once_each_keep_their_own(self, file: Path) -> None:
        values = {f"s{number}": f"secret-value-{number}" for number in range(6)}
        with ThreadPoolExecutor(len(values)) as pool:
            codes = list(pool.map(lambda it: add(file, *it), values.items()))

        servers = load(file).settings.servers
        assert codes == [0] * len(values)
        assert {name: servers[name].env["API_KEY"] for name in values} == values

    @pytest.mark.parametrize("before", [None, "MINE=1\n"])
    def test_an_edit_that_fails_leaves_none(self, file: Path, before: str | None) -> None:
        dotenv = file.with_name(".env")
        if before is not None:
            dotenv.write_text(before)
        edited = EditedFile(ConfigFile(file))
        edited.text.add_servers({"b": {"command": "x", "env": {"KEY": "${KEY}"}}})
        with pytest.raises(CodemodeError, match="was changed by another program"):
            edited.save(self.changing(file, added_variables(dotenv, {"KEY": "value"})))
        assert (dotenv.read_text() if dotenv.exists() else None) == before

    def test_an_edit_waits_for_another_one(self, file: Path) -> None:
        with saving.locked(ConfigFile(file)) as edited:
            other = threading.Thread(target=add, args=(file, "b", "secret-of-b"))
            other.start()
            edited.text.add_servers({"c": {"command": "x", "env": {"API_KEY": "${API_KEY}"}}})
            edited.save(added_variables(edited.dotenv, {"API_KEY": "secret-of-c"}))
        other.join()

        servers = load(file).settings.servers
        assert {name: servers[name].env["API_KEY"] for name in "bc"} == {"b": "secret-of-b", "c": "secret-of-c"}

    def test_an_import_reads_anew_what_changed_during_its_question(
        self, file: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        class Person:
            def isatty(self) -> bool:
                return True

            def readline(self) -> str:
                assert add(file, "mine", "secret-of-mine") == 0
                return "1\n"

        for name in NETWORK_VARIABLES:  # which would be asked about
            monkeypatch.delenv(name, raising=False)
        cursor = Path.home() / ".cursor/mcp.json"
        cursor.parent.mkdir(parents=True)
        cursor.write_text('{"mcpServers": {"other": {"command": "true", "env": {"API_KEY": "secret-of-other"}}}}')
        monkeypatch.setattr("sys.stdin", Person())

        assert cli.run(["import", "--config", str(file), "--no-test"]) == 0

        servers = load(file).settings.servers
        found = {name: servers[name].env["API_KEY"] for name in ("mine", "other")}
        assert found == {"mine": "secret-of-mine", "other": "secret-of-other"}


class TestTrust:
    def trusted(self, file: Path) -> ConfigFile:
        place = ConfigFile(file, is_in_current_folder=True)
        TrustRecord(path=file, digests=dict(load_place(place, require_trust=False).digests)).write()
        return place

    def is_trusted(self, place: ConfigFile) -> bool:
        return is_trusted(place.path, load_place(place, require_trust=False).digests)

    def test_stays_after_an_edit_with_a_secret(self, file: Path) -> None:
        edited = EditedFile(self.trusted(file))
        edited.text.add_servers({"b": {"command": "x", "env": {"KEY": "${KEY}"}}})
        edited.save(added_variables(edited.dotenv, {"KEY": "value"}))

        assert self.is_trusted(edited.place)
        assert not edited.needs_trust

    @pytest.mark.parametrize("secrets", [{}, {"KEY": "value"}], ids=["without a secret", "with a secret"])
    def test_does_not_cover_a_dotenv_that_somebody_changed_meanwhile(self, file: Path, secrets: dict[str, str]) -> None:
        edited = EditedFile(self.trusted(file))
        edited.text.add_servers({"b": {"command": "x"}})
        edited.dotenv.write_text("TOOL=evil\n")
        edited.save(added_variables(edited.dotenv, secrets))

        assert not self.is_trusted(edited.place)
        assert edited.needs_trust
