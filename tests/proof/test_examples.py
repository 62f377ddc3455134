"""The scripts in `examples/` run as a person runs them, on published servers.

What the model gets is in what they print; what reached the servers is in the files, the database and the memory.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

pytestmark = [pytest.mark.slow, pytest.mark.network, pytest.mark.usefixtures("real_servers")]


def printed(name: str, folder: Path) -> str:
    """What one of them prints that came to its end in `folder`."""
    command = [sys.executable, str(ROOT / "examples" / name), str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=250, cwd=folder)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return done.stdout


def test_the_basic_call_goes_from_the_servers_to_the_tool_of_the_task(tmp_path: Path) -> None:
    text = printed("01_basic_tool_call.py", tmp_path)
    assert "/servers · 4 servers, " in text
    scaffold = text.partition("detail_level='scaffold'")[2].partition("> read_tool")[0]
    assert [line for line in scaffold.splitlines() if line.startswith("from ")] == ["from servers.calc import math"]
    assert "value:\n8\n" in text


def test_the_chain_writes_what_one_server_gave_by_two_others_and_the_model_gets_one_line(tmp_path: Path) -> None:
    text = printed("02_multi_tool_chain.py", tmp_path)
    assert "value:\n2467 amounts were summarized, stored and remembered\n" in text
    report = (tmp_path / "files" / "report.txt").read_text()
    assert "2467" in report
    assert report not in text
    memory = json.loads((tmp_path / "memory.jsonl").read_text().splitlines()[0])
    assert (memory["name"], memory["observations"]) == ("pending orders", ["2467 of them, see report.txt"])


def test_the_filter_reads_ten_thousand_rows_and_the_model_gets_two_lines(tmp_path: Path) -> None:
    text = printed("03_data_filtering.py", tmp_path)
    output = text.partition("output:\n")[2].splitlines()
    assert output[0] == "10000 orders, 2467 pending, of 848 customers"
    assert list(json.loads(output[2])) == [f"customer{number}@example.com" for number in ("309", "451", "073")]
    assert len(text) < 2_000


def test_the_loop_handles_the_error_of_one_file_and_reads_it_again(tmp_path: Path) -> None:
    text = printed("04_control_flow.py", tmp_path)
    assert text.partition("output:\n")[2].splitlines()[:5] == [
        "north: 12 left",
        "south: 3 left, order more (attempt 1)",
        "west: 0 left, order more (attempt 2)",
        "value:",
        '["west"]',
    ]
    assert (tmp_path / "files" / "west.txt").read_text() == "0"


def test_the_second_session_goes_on_where_the_first_stopped(tmp_path: Path) -> None:
    text = printed("05_state_persistence.py", tmp_path)
    steps = [line for line in text.splitlines() if line.startswith("goes on after ")]
    assert steps == ["goes on after 0 of 4", "goes on after 2 of 4"]
    state = tmp_path / "state" / "workspaces" / "default" / "state"
    totals = json.loads((state / "totals.json").read_text())
    assert list(totals) == ["pending", "shipped", "paid", "cancelled"]
    assert text.count(json.dumps(totals, separators=(",", ":"))) == 1
    assert json.loads((state / "checkpoint.json").read_text())["step"] == 4


def test_the_third_session_uses_the_skills_of_two_others(tmp_path: Path) -> None:
    text = printed("06_skills.py", tmp_path)
    assert 'value:\n[{"pending":2467,"paid":2490},999.54]\n' in text
    assert "report.py  Number of orders by status. · calls skills.amounts" in text


def test_the_files_of_the_user_are_sorted_and_a_file_of_the_program_is_kept(tmp_path: Path) -> None:
    text = printed("07_filesystem_operations.py", tmp_path)
    assert "value:\n3 rows\n" in text
    folder = tmp_path / "files" / "by_city"
    written = {path.name: path.read_text() for path in folder.iterdir()}
    assert written == {"Oslo.txt": "8\n", "Lyon.txt": "4\n", "done.csv": "city,sold\nOslo,3\nLyon,4\nOslo,5\n"}
    assert not (tmp_path / "files" / "sales.csv").exists()
    assert text.endswith("Lyon\nOslo\n")


def test_a_call_that_fails_ends_an_example_with_what_was_wrong(tmp_path: Path) -> None:
    """The control: the other tests see an example that fails."""
    (tmp_path / "orders.db").touch()
    command = [sys.executable, str(ROOT / "examples" / "03_data_filtering.py"), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=250)
    assert done.returncode == 1
    assert "no such table: orders" in done.stdout
    assert "Traceback" not in done.stderr


def test_every_example_has_its_test() -> None:
    tested = Path(__file__).read_text()
    scripts = sorted(path.name for path in (ROOT / "examples").glob("[0-9]*.py"))
    assert len(scripts) == 8
    assert all(f'printed("{name}"' in tested for name in scripts)


def test_the_trace_shows_both_calls_and_without_tracing_of_mcp_that_a_program_ran(tmp_path: Path) -> None:
    text = printed("08_tracing.py", tmp_path)
    with_calls, without = (
        [
            line.partition(" (")[0]
            for line in part.splitlines()
            if line.lstrip("│ ").startswith(("├", "└", "tools/call"))
        ]
        for part in text.split("codemode-server serve --no-mcp-tracing")
    )
    assert with_calls == [
        "tools/call execute_code",
        "└─ execution",
        "   ├─ execute_tool orders.read_query",
        "   │  └─ MCP send tools/call read_query",
        "   └─ execute_tool memory.create_entities",
        "      └─ MCP send tools/call create_entities",
    ]
    assert without == ["tools/call execute_code", "└─ execution"]
