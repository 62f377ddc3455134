"""The rest of the examples of the documents that the product comes from: those that are fragments, several sessions, or
say what a program finds out about tools. Their text is unchanged; what a fragment leaves undefined stands before it.

`test_seed_programs` has the whole programs, `test_saved_skills` those about skills.
"""

from __future__ import annotations

import ast
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from tests import fork_server

from .product import UPSTREAMS, Host, configuration, in_memory, in_memory_for_all, office

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="module")]

LEVEL_1 = """
from tool_discovery import search_tools

tools = search_tools(query="github", detail_level="name_only")
# Returns: ["create_issue", "get_file_contents", "create_pull_request"]
"""

LEVEL_2 = """
tools = search_tools(query="create_issue", detail_level="with_description")
# Returns: [
#   {
#     "name": "create_issue",
#     "server": "github",
#     "description": "Create a new issue in a GitHub repository",
#     "import": "from servers.github import create_issue"
#   }
# ]
"""

LEVEL_3 = """
tool = search_tools(query="create_issue", detail_level="full")[0]
# Returns: Full input/output schemas, examples
"""

TOOL_DISCOVERY_STEP = """
from tool_discovery import search_tools

# Search for relevant tools
tools = search_tools(query="github file", detail_level="name_only")
"""

TOOL_DISCOVERY = """
from tool_discovery import search_tools

# Progressive disclosure
tools_level_1 = search_tools(detail_level="name_only")        # ~50 tokens
tools_level_2 = search_tools(detail_level="with_description") # ~500 tokens
tools_level_3 = search_tools(detail_level="full")            # ~1,500 tokens
"""

NATIVE_CONTROL_FLOW = """
# Traditional MCP: Cannot do this (requires many API calls)
for user_id in user_list:
    data = await get_user_data(user_id)
    if data['status'] == 'active':
        await send_notification(user_id)

# Code Execution: Native Python loops and conditionals
"""

IMPORT_AND_USE = """
from servers.github import get_file_contents, create_issue

# Use imported tools
file = await get_file_contents({...})
issue = await create_issue({...})
"""

STATE_PERSISTENCE = """
# Save intermediate data
with open('./workspace/pending_orders.json', 'w') as f:
    json.dump(pending_orders, f)

# Create reusable skill
with open('./skills/check_pending_orders.py', 'w') as f:
    f.write(skill_code)
"""

TOKEN_USAGE = """
from client import get_client

client = get_client()
print(f"Tools called: {client.call_count}")
print(f"Tokens used: {client.total_tokens}")
"""

TOOL_SELECTION = {
    "Calculate 5 + 3": ["from servers.calculator import calculate, add, multiply"],
    "Get weather for NYC": ["from servers.weather import get_weather, get_forecast"],
    "Read file and calculate sum": [
        "from servers.filesystem import read_file",
        "from servers.calculator import calculate",
    ],
}
"""The fourth document, "Different Customers, Different Tool Selection": each task with its generated code."""

SESSION_LOG = """
{
    "session_id": "session_001",
    "customer_uid": "user_12345",
    "started_at": "2025-11-16T10:00:00Z",
    "ended_at": "2025-11-16T10:30:00Z",
    "tasks": [
        {
            "task_id": "task_001",
            "description": "Calculate 5 + 3",
            "code": "...",
            "result": "8.0",
            "output": "...",
            "timestamp": "2025-11-16T10:00:15Z"
        }
    ],
    "state_files": [
        "/workspace/state/results.json",
        "/workspace/state/context.json"
    ],
    "checkpoint": {
        "step": 3,
        "last_task": "task_003",
        "context": "Working on data analysis",
        "timestamp": "2025-11-16T10:25:00Z"
    }
}
"""


def named(folder: Path, *names: str) -> dict[str, Any]:
    """The servers of `tests/example_servers/documents.py`."""
    script, environment = UPSTREAMS / "documents.py", {"OFFICE_LOG": str(folder / "office.log")}
    return {name: {**fork_server.small_upstream(script, name), "env": environment} for name in names}


def all_servers(folder: Path) -> dict[str, Any]:
    return named(folder, "github", "calculator", "weather", "filesystem", "users") | office(folder, "google_drive")


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def shared(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Host]:
    folder = tmp_path_factory.mktemp("documents")
    async with in_memory_for_all(configuration(folder, all_servers(folder))) as opened:
        yield opened


async def test_each_level_of_detail_has_what_the_document_says(host: Host) -> None:
    program = f"{LEVEL_1}first = tools\n{LEVEL_2}second = tools[0]\n{LEVEL_3}[first, second, tool]"
    first, second, third = (await host.run(program)).value
    assert set(first) == {"create_issue", "get_file_contents"}
    assert {"name", "server", "description", "import"} <= second.keys()
    assert second["import"] == "from servers.github import create_issue"
    assert second["description"].startswith("Create a new issue in a GitHub repository")
    assert "def create_issue(owner: str" in third["source"]
    found = (await host.run(TOOL_DISCOVERY_STEP + "tools")).value
    assert found[0] == "get_file_contents"


async def test_a_search_without_a_query_has_every_tool_at_each_level(tmp_path: Path) -> None:
    async with in_memory(configuration(tmp_path, named(tmp_path, "calculator", "weather"))) as host:
        levels = (await host.run(TOOL_DISCOVERY + "[tools_level_1, tools_level_2, tools_level_3]")).value
    everything = ["add", "calculate", "multiply", "get_forecast", "get_weather"]
    assert [levels[0], *([it["name"] for it in level] for level in levels[1:])] == [everything] * 3
    sizes = [len(json.dumps(level)) for level in levels]
    assert sizes == sorted(sizes)


async def test_a_loop_with_a_condition_calls_one_tool_for_some_users_of_another(host: Host) -> None:
    undefined = "from servers.users import get_user_data, send_notification\nuser_list = [1, 2, 3, 4, 5]\n"
    assert (await host.run(undefined + NATIVE_CONTROL_FLOW)).content["status"] == "succeeded"
    assert [call["user_id"] for call in host.reached("get_user_data")] == [1, 2, 3, 4, 5]
    assert [call["user_id"] for call in host.reached("send_notification")] == [1, 3, 5]


async def test_a_call_with_the_placeholders_of_the_document_is_rejected_with_what_is_missing(host: Host) -> None:
    filled = IMPORT_AND_USE.replace("{...}", "{'owner': 'a', 'repo': 'b', 'path': 'BUG.md'}", 1)
    filled = filled.replace("{...}", "{'owner': 'a', 'repo': 'b', 'title': 'Bug', 'body': file['content']}")
    message = (await host.run(IMPORT_AND_USE)).text
    assert "get_file_contents() is missing 'repo', 'path'. It takes owner, repo, path." in message
    assert host.reached() == []
    assert (await host.run(filled + "issue['number']")).value == 1, "the control"
    assert [call["body"] for call in host.reached("create_issue")] == ["It crashes.\n"]


async def test_a_program_saves_data_and_a_skill_by_relative_paths(host: Host) -> None:
    undefined = "import json\npending_orders = ['ORD-00001']\nskill_code = 'def one():\\n    return 1\\n'\n"
    answer = await host.run(undefined + STATE_PERSISTENCE)
    assert answer.content["status"] == "succeeded", answer.text
    used = "import json\nfrom skills.check_pending_orders import one\n"
    read = "[one(), json.load(open('/workspace/pending_orders.json'))]"
    assert (await host.run(used + read)).value == [1, ["ORD-00001"]]


async def test_token_usage_tracking_of_the_second_document_counts_the_calls_of_the_program(host: Host) -> None:
    call = (
        "from client import call_mcp_tool\nfor form in ('calculator.add', 'calculator/add', 'mcp__calculator__add'):\n"
    )
    answer = await host.run(f"{call}    call_mcp_tool(form, {{'a': 5, 'b': 3}})\n{TOKEN_USAGE}")
    called, used = answer.content["stdout"].splitlines()
    assert called == "Tools called: 3"
    assert 10 < int(used.removeprefix("Tokens used: ")) < 200
    assert (await host.run(TOKEN_USAGE)).content["stdout"].splitlines() == ["Tools called: 0", "Tokens used: 0"]
    within = "from client import get_client\nwith get_client() as c:\n    pass\nasync with get_client() as c:\n    "
    added = await host.run(f"{within}print(await c.call_tool('calculator:add', {{'a': 5, 'b': 3}}))")
    assert added.content["stdout"] == "8\n"
    assert "write calculator.add" in (await host.run(f"{within}await c.call_tool('add')")).text


EXPLORATION = """
# Phase 1: Discover available services
services = os.listdir('/servers/')
print('Available:', services)

# Phase 2: Narrow down to relevant service
drive_tools = os.listdir('/servers/google-drive/')

# Phase 3: Load only needed tool definition
tool_def = open('/servers/google-drive/get_document.py').read()
"""


async def test_the_exploration_phase_of_the_third_document_reads_servers_as_folders(host: Host) -> None:
    """Its TypeScript, in Python: `listDirectory` is `os.listdir`, `readFile` is `open`."""
    answer = await host.run(f"import os, pkgutil, servers\n{EXPLORATION}[services, drive_tools, tool_def]")
    services, tools, definition = answer.value
    assert {"github", "google_drive", "weather"} <= set(services)
    assert "get_document.py" in tools
    assert "def get_document(" in definition
    found = "[[it.name for it in pkgutil.iter_modules(servers.__path__)], dir(servers)]"
    assert (await host.run(f"import pkgutil, servers\n{found}")).value == [services, services]


async def test_the_long_running_task_of_the_third_document_has_its_state_in_a_folder_of_that_name(host: Host) -> None:
    head = "import json, os, pathlib\npath = pathlib.Path('/state/p.json')\n"
    saved = "os.makedirs('/state', exist_ok=True)\njson.dump({'processed': 100}, open('/state/p.json', 'w'))"
    assert (await host.run(head + saved)).content["status"] == "succeeded"
    seen = "[json.loads(path.read_text()), os.path.exists('/state/p.json'), os.listdir('/state').count('p.json')]"
    assert (await host.run(head + seen)).value == [{"processed": 100}, True, 1]
    gone = "path.rename('/state/q.json')\nos.remove('/workspace/state/q.json')\npath.exists()"
    assert (await host.run(head + gone)).value is False


async def test_the_program_for_a_task_begins_with_the_tools_of_its_own_servers(tmp_path: Path) -> None:
    """Each task begins with other servers. In a session that has called a server, that one may come first."""
    begun, ran = dict[str, list[str]](), list[Any]()
    async with in_memory(configuration(tmp_path, all_servers(tmp_path))) as host:
        for task, documented in TOOL_SELECTION.items():
            program = (await host.call("search_tools", query=task, detail_level="scaffold")).text
            servers = dict.fromkeys(line.split()[1] for line in program.splitlines() if line.startswith("from "))
            begun[task] = list(servers)[: len(documented)]
            ran.append((await host.run("\n".join([*documented, "1"]))).value)
    assert begun == {task: [line.split()[1] for line in lines] for task, lines in TOOL_SELECTION.items()}
    assert ran == [1, 1, 1], "the imports of the document run as well"


async def test_the_log_of_a_session_has_the_form_of_the_document(tmp_path: Path) -> None:
    documented = ast.literal_eval(SESSION_LOG.strip())
    code = (
        "from codemode import checkpoint\nopen('/workspace/state/results.json', 'w').write('{}')\nprint('adding')\n"
        "checkpoint.save(step=3, context='Working on data analysis')\n5.0 + 3"
    )
    async with in_memory(configuration(tmp_path, {}, principal="user_12345")) as host:
        await host.run(code, description="Calculate 5 + 3")
    (log,) = session_logs(tmp_path)
    (task,), (documented_task,) = log["tasks"], documented["tasks"]
    assert documented.keys() <= log.keys()
    assert documented_task.keys() <= task.keys()
    assert log["customer_uid"] == documented["customer_uid"]
    assert log["started_at"] <= task["timestamp"] <= log["ended_at"]
    assert log["state_files"] == ["/workspace/state/checkpoint.json", "/workspace/state/results.json"]
    assert {name: task[name] for name in ("description", "code", "result", "output", "status")} == {
        "description": documented_task["description"],
        "code": code,
        "result": documented_task["result"],
        "output": "adding\n",
        "status": "succeeded",
    }
    point = log["checkpoint"]
    assert point.keys() == documented["checkpoint"].keys()
    assert (point["step"], point["context"], point["last_task"]) == (3, "Working on data analysis", task["task_id"])


def session_logs(folder: Path, principal: str = "user_12345") -> list[dict[str, Any]]:
    sessions = folder / "state" / "workspaces" / principal / "sessions"
    return [json.loads(file.read_text()) for file in sorted(sessions.glob("*.json"))]
