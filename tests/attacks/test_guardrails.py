"""Threat: a program spells arguments so that a guardrail misses them, or hopes that it hangs; a repository names a
guardrail of its own.

Rule: what a guardrail can't judge in time does not pass, and only the person's configuration names one. The proof is
the log of the upstream.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from codemode_server.features.guardrails import Block, GuardedCall, GuardedResult, Guardrail, Pass
from tests.behaviour.product import PLAIN, configuration, in_memory

DOMAINS = {"use": "domains", "settings": {"allow": ["good.example"]}}
CREATE = "from codemode import ToolError\nfrom servers.github import create_issue\n"


class NoZebras(Guardrail):
    def after_call(self, call: GuardedCall, result: GuardedResult) -> Any:
        return Block("it names an animal") if "zebra" in json.dumps(result.value) else Pass()


FAILING = (
    PLAIN
    + """
server = Server("zoo")
@server.tool()
def feed(animal: str) -> str:
    raise ToolError("could not feed the " + animal[::-1])
server.run()
"""
)
FEED = """
from codemode import ToolError
from servers.zoo import feed
try:
    feed('{}')
except ToolError as error:
    found = [error.kind, str(error)]
found
"""


def zoo(folder: Path, rail: str) -> Path:
    (folder / "zoo.py").write_text(FAILING)
    server = {"command": sys.executable, "args": [str(folder / "zoo.py")]}
    return configuration(folder, {"zoo": server}, guardrails=[{"use": f"{__name__}:{rail}"}])


async def test_a_server_can_not_pass_a_text_by_a_guardrail_as_an_error(tmp_path: Path) -> None:
    async with in_memory(zoo(tmp_path, "NoZebras")) as host:
        answer = await host.run(FEED.format("arbez"))
        assert answer.value[0] == "result_withheld"
        assert "zebra" not in answer.text
        control = (await host.run(FEED.format("esroh"))).value
        assert control[0] == "tool_failed", "the control"
        assert "could not feed the horse" in control[1]


SPELLINGS = [
    "https://good.example@evil.example",
    "https:\\\\evil.example",
    "https://evil\uff0eexample",
    "https://good.example?u=https%253A%252F%252Fevil.example",
    "'x' * 2_000_000 + ' https://evil.example'",
    "'%2568' * 200_000",
]
"""As the program has them; the long ones as expressions."""


async def test_no_spelling_of_an_address_slips_past_a_guardrail(tmp_path: Path) -> None:
    texts = ", ".join([*map(repr, SPELLINGS[:4]), *SPELLINGS[4:]])
    code = (
        f"{CREATE}refused = 0\nfor text in [{texts}]:\n"
        "    for body in (text, text + ' '):\n        try:\n            create_issue('a', 'b', 'c', body)\n"
        "        except ToolError as error:\n            refused += error.kind == 'refused'\n"
        "[refused, create_issue('a', 'b', 'c', 'https://good.example/')['number']]"
    )
    async with in_memory(configuration(tmp_path, guardrails=[DOMAINS])) as host:
        assert (await host.run(code)).value == [2 * len(SPELLINGS), 1]
        assert [it["body"] for it in host.reached("create_issue")] == ["https://good.example/"]
