"""A database on PostgreSQL that can't be used: one line that names it and what to do, and never the password; a step
that others undid, or whose connection was lost, is done again, and none is done twice.

On a real server, whose users, rights, databases and processes are changed as a person would.
"""

from __future__ import annotations

import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace

import pytest
from sqlalchemy import Connection, func, insert, select, update

from codemode_server.domain.errors import JournalUnavailable
from codemode_server.storage.database import Database, DatabaseUnreachable, PostgresAddress, TransactionUndone
from codemode_server.storage.database_thread import DatabaseThread
from codemode_server.storage.tables import VERSION, processes
from tests.storage.postgres import GUARDED, Cluster

PASSWORD = "a long password"


@pytest.fixture
def address(postgres: Cluster) -> PostgresAddress:
    return postgres.database()


def name_of(address: PostgresAddress) -> str:
    return address.url.partition("?")[0].rpartition("/")[2]


def add(connection: Connection, name: str = "one") -> None:
    connection.execute(insert(processes), {"name": name, "seen_at": 0.0})


def count(connection: Connection) -> int:
    return connection.execute(select(func.count()).select_from(processes)).scalar_one()


def problem(address: PostgresAddress) -> str:
    with pytest.raises(JournalUnavailable) as caught:
        Database(address).close()
    (line,) = str(caught.value).splitlines()
    return line


class TestOpening:
    def test_processes_that_open_it_at_once_make_the_tables_once(self, address: PostgresAddress) -> None:
        opened: list[Database] = []
        threads = [threading.Thread(target=lambda: opened.append(Database(address))) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(opened) == 4
        for number, database in enumerate(opened):
            database.transact(lambda connection, number=number: add(connection, str(number)))  # type: ignore[misc]
        with opened[0].begin(reads=True) as connection:
            assert count(connection) == 4
        for database in opened:
            database.close()

    def test_a_wrong_password_is_named_and_not_shown(self, postgres: Cluster, address: PostgresAddress) -> None:
        postgres.execute(f"DROP ROLE IF EXISTS {GUARDED}")
        postgres.execute(f"CREATE ROLE {GUARDED} LOGIN PASSWORD '{PASSWORD}'")
        name = name_of(address)
        guarded = postgres.address(name, GUARDED, PASSWORD)
        postgres.execute(f"ALTER DATABASE {name} OWNER TO {GUARDED}")
        line = problem(replace(guarded, password="another password"))
        assert line.endswith("Check the user in state.database and the password in state.database_password.")
        assert "another password" not in line
        assert "another password" not in repr(replace(guarded, password="another password"))
        assert "Check the user" in problem(replace(guarded, password=None))
        Database(guarded).close()

    def test_a_database_that_is_missing_is_not_made(self, postgres: Cluster) -> None:
        line = problem(postgres.address("nowhere"))
        assert line.startswith("the record 'nowhere' on this machine (PostgreSQL) can't be used: ")
        assert line.endswith("Create it with `createdb`, owned by the user in state.database.")

    def test_a_user_without_rights_is_named(self, postgres: Cluster, address: PostgresAddress) -> None:
        postgres.execute("DROP ROLE IF EXISTS stranger")
        postgres.execute("CREATE ROLE stranger LOGIN")
        stranger = postgres.address(name_of(address), "stranger")
        assert problem(stranger).endswith("Make the user in state.database the owner of that database.")

    def test_a_server_that_is_not_there_is_named(self) -> None:
        with closing(socket.socket()) as closed:
            closed.bind(("127.0.0.1", 0))
            line = problem(PostgresAddress(f"postgresql://ann@127.0.0.1:{closed.getsockname()[1]}/work", PASSWORD))
        assert line == (
            "the record 'work' on 127.0.0.1 (PostgreSQL) can't be used: Connection refused. "
            "Start its server, or correct state.database."
        )

    @pytest.mark.parametrize("version", [VERSION - 1, VERSION + 1])
    def test_tables_of_another_version_are_refused_and_stay(
        self, postgres: Cluster, address: PostgresAddress, version: int
    ) -> None:
        with closing(Database(address)) as database:
            database.transact(add)
        postgres.execute(f"COMMENT ON TABLE executions IS 'codemode-server {version}'", name_of(address))
        line = problem(address)
        assert line.endswith(
            f"another version of codemode-server made its tables (schema {version}). "
            "Set state.database to a database of its own."
        )
        assert postgres.execute("SELECT name FROM processes", name_of(address)) == [("one",)]

    def test_tables_of_another_program_are_left_alone(self, postgres: Cluster, address: PostgresAddress) -> None:
        postgres.execute("CREATE TABLE calls (number integer)", name_of(address))
        assert "it has a table 'calls' of another program. Set state.database" in problem(address)
        assert postgres.execute("SELECT count(*) FROM pg_tables WHERE schemaname = 'public'", name_of(address)) == [
            (1,)
        ]

    def test_a_missing_table_is_named(self, postgres: Cluster, address: PostgresAddress) -> None:
        Database(address).close()
        postgres.execute("DROP TABLE calls", name_of(address))
        assert "there is no table 'calls'. Restore it from a backup" in problem(address)


def test_without_the_extra_the_command_for_it_is_named(
    address: PostgresAddress, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("codemode_server.storage.postgres.find_spec", lambda _name: None)
    assert "psycopg is not installed. Install it with: " in problem(address)
    assert "[postgres]" in problem(address)


class TestAServerThatEnds:
    @pytest.fixture
    def server(self, postgres: Cluster) -> Iterator[Cluster]:
        yield postgres
        postgres.stop()
        postgres.start()

    async def test_steps_fail_while_it_is_gone_and_go_on_when_it_is_back(self, server: Cluster) -> None:
        address = server.database()
        thread = DatabaseThread(address)
        await thread.run(lambda connection: add(connection, "before"), is_durable=True)
        server.stop(signal.SIGQUIT)
        with pytest.raises(DatabaseUnreachable, match=r"Start its server, or correct state\.database"):
            await thread.run(lambda connection: add(connection, "meanwhile"))
        server.start()
        await thread.run(lambda connection: add(connection, "after"))
        assert [it.name for it in await thread.rows(select(processes.c.name))] == ["before", "after"]
        thread.close()

    async def test_a_step_whose_connection_was_lost_is_done_on_another_one(self, server: Cluster) -> None:
        """Nobody sees that the server was restarted, or a balancer closed an idle connection."""
        thread = DatabaseThread(server.database())
        await thread.run(add)
        server.stop()
        server.start()
        assert await thread.run(count) == 1
        ended: list[str] = []

        def lose_once(connection: Connection) -> None:
            add(connection, "two")
            if not ended:
                ended.append("now")
                server.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()")
            count(connection)

        await thread.run(lose_once)
        assert await thread.run(count) == 2
        thread.close()


class TestOthers:
    def test_a_change_that_others_made_meanwhile_is_not_overwritten(self, address: PostgresAddress) -> None:
        with closing(Database(address)) as one, closing(Database(address)) as two:
            one.transact(add)
            tries: list[float] = []

            def advance(connection: Connection) -> None:
                seen = connection.execute(select(processes.c.seen_at)).scalar_one()
                if not tries:
                    two.transact(lambda other: other.execute(update(processes).values(seen_at=10.0)))
                tries.append(seen)
                connection.execute(update(processes).values(seen_at=seen + 1))

            with pytest.raises(TransactionUndone, match="Try again"), one.begin() as connection:
                advance(connection)
            tries.clear()
            one.transact(advance)
            assert tries == [10.0, 10.0] or len(tries) == 2
            with one.begin(reads=True) as connection:
                assert connection.execute(select(processes.c.seen_at)).scalar_one() == 11.0

    async def test_a_step_that_meets_a_row_of_others_does_not_undo_the_steps_beside_it(
        self, address: PostgresAddress
    ) -> None:
        thread = DatabaseThread(address)
        await thread.run(add)
        lost: list[Exception] = []
        for name in ("two", "one", "three"):
            thread.post(lambda connection, name=name: add(connection, name), on_error=lost.append)  # type: ignore[misc]
        assert await thread.run(count) == 3
        assert len(lost) == 1
        thread.close()


def test_what_is_durable_waits_for_the_disk_of_the_server(address: PostgresAddress) -> None:
    def setting(connection: Connection) -> object:
        return connection.exec_driver_sql("SHOW synchronous_commit").scalar_one()

    with closing(Database(address)) as database:
        assert [database.transact(setting, is_durable=it) for it in (False, True, False)] == ["off", "on", "off"]
