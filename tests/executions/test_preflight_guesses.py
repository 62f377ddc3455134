"""Names of tools as models guess them, and texts in another language: the one line says what to write instead."""

from __future__ import annotations

import pytest

from codemode_server.catalog.catalog import Catalog
from codemode_server.executions.preflight.preflight import CheckContext
from codemode_server.sandbox.importable import IN_WASM

from .kit import TEXT, errors, lines, listing, preflight, tool

CATALOG = Catalog.build(
    [
        listing("my-shop", tool("list-orders", {"status": TEXT}), tool("refund", {})),
        listing("crm", tool("getPerson", {"id": TEXT}), tool("refund", {})),
        listing("web", tool("fetch_page", {"url": TEXT})),
    ]
)
ORDERS, PERSON = "from servers.my_shop import list_orders", "from servers.crm import getPerson"
BOTH = "from servers.crm import refund or from servers.my_shop import refund"
GUESSES = {
    "servers.my_shop.list_orders()": ORDERS,
    "tools.list_orders()": ORDERS,
    "await tools.my_shop.list_orders({})": ORDERS,
    "mcp__my_shop__list_orders()": ORDERS,
    "my_shop__list_orders()": ORDERS,
    "my_shop_list_orders()": ORDERS,
    "mcp_tools.crm_get_person(id='1')": PERSON,
    "from servers import crm_refund": "from servers.crm import refund",
    "functions.crm.get_person(id='1')": PERSON,
    "codemode.crm.getPerson(id='1')": PERSON,
    "get_person(id='1')": PERSON,
    "refund()": BOTH,
    "tools.refund()": BOTH,
    "crm.getPerson(id='1')": "from servers import crm",
    "call_tool('crm', 'getPerson', {})": PERSON,
    "client.call_tool('crm.getPerson', {})": PERSON,
    "await session.call_tool('list-orders', arguments={})": ORDERS,
    "mcp.call('my-shop.listOrders', {})": ORDERS,
    "use_mcp_tool(server_name='crm', tool_name='refund')": "from servers.crm import refund",
    "dir(servers)": "import servers",
    "search_tools('orders')": "from codemode import search_tools",
    "from servers import list_orders": ORDERS,
    "from servers import search_tools": "from codemode import search_tools",
    "from codemode import crm": "from servers import crm",
    "import servers\nservers.getPerson(id='1')": PERSON,
    "from crm import get_person": PERSON,
    "import crm": "from servers import crm",
    "from tools import list_orders": ORDERS,
    "from mcp.servers.crm import refund": "from servers.crm import refund",
    "import requests": "from servers.web import fetch_page",
}
OTHERS = {
    "list_dir('servers')": "list_dir is a tool beside execute_code; in a program: import servers; dir(servers), dir",
    "from servers import read_tool": "in a program: help(<tool>)",
    "execute_code('1')": "a program runs no other one",
    "from mcp import ClientSession": "tools are functions: from servers.<server> import <tool>",
    "import numpy": "write [f(x) for x in values]",
    "pwd": "programs are Python, not shell; write: import os; os.listdir('/servers')",
    "cat /servers/crm": "programs are Python, not shell",
    "#!/bin/bash\nset -e\necho hello": "programs are Python, not shell",
    "#!/usr/bin/env bash\n\n# all of them\nls -la /servers": "programs are Python, not shell; write: import os",
    "# first the page\ncurl https://example.com": "programs are Python, not shell; programs have no network",
    "ls -la | head": "programs are Python, not shell",
    "!pip install rich": "programs are Python, not shell; a program can install nothing; the user can add packages",
    "curl https://example.com": "programs are Python, not shell; programs have no network",
    "const p = await crm.getPerson({id: '1'});": f"programs are Python; write: {PERSON}",
    "import { refund } from './servers/crm';\nconsole.log(await refund());": f"programs are Python; write: {BOTH}",
    "console.log(1)": "programs are Python; tools are functions",
    "SELECT * FROM orders": "programs are Python; tools are functions",
    '{"tool": "crm.getPerson", "arguments": {"id": null}}': f"programs are Python; write: {PERSON}",
    '{"code": "refund()", "dry_run": true}': "give the members of the object as arguments of execute_code",
}


async def problems(code: str) -> list[str]:
    async with preflight(CATALOG) as check:
        return lines((await check.check(code, CheckContext(IN_WASM))).errors)


@pytest.mark.parametrize("code", GUESSES)
async def test_a_guessed_name_is_answered_with_the_import_to_write(code: str) -> None:
    (problem,) = await problems(code)
    assert problem.endswith((f"write: {GUESSES[code]}", f"or a tool: {GUESSES[code]}")), problem


@pytest.mark.parametrize("code", OTHERS)
async def test_another_entry_or_language_is_answered_with_what_to_write(code: str) -> None:
    (problem,) = await problems(code)
    assert OTHERS[code] in problem, problem


@pytest.mark.parametrize(
    "code",
    ["rows.append(1)", "tree", "head(rows)", '{"name": "Ann", "input": 3}', "find = [1, 2", "#!/bin/bash\nrows = 1"],
)
async def test_nothing_is_guessed_of_names_that_may_be_of_the_program_before(code: str) -> None:
    assert await errors(code, CATALOG) == []
