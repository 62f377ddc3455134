"""A search level that can't be had is not announced, to the model or to the person; through a real process."""

from __future__ import annotations

import sys
from pathlib import Path

import anyio
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client

from codemode_server.extras import install_command
from tests.behaviour.product import Answer, configuration, office

WITHOUT_PACKAGES = """
import runpy, sys
sys.modules |= dict.fromkeys(("onnxruntime", "sentence_transformers"))  # as if they were not installed
sys.argv = ["codemode-server", "--config", {path!r}]
runpy.run_module("codemode_server", run_name="__main__")
"""


async def searched(folder: Path, *, ranker: str) -> tuple[list[str], str]:
    """The answers to searches until no level can come any more, and what stood on stderr."""
    path = configuration(folder, office(folder, "github"), search={"ranker": ranker}, results={})
    log, stderr = folder / "state" / "logs" / "codemode.log", folder / "stderr.log"
    command = StdioServerParameters(command=sys.executable, args=["-c", WITHOUT_PACKAGES.format(path=str(path))])
    texts = []
    with stderr.open("w") as errlog:
        async with Client(stdio_client(command, errlog=errlog)) as client:
            with anyio.fail_after(30):
                while not log.exists() or "no semantic ranking" not in log.read_text():
                    texts.append(Answer(await client.call_tool("search_tools", {"query": "list issues"})).text)
                    await anyio.sleep(0.05)
            texts.append(Answer(await client.call_tool("search_tools", {"query": "list issues"})).text)
    return texts, stderr.read_text()


async def test_a_model_that_nobody_asked_for_and_that_is_not_installed_is_never_mentioned(tmp_path: Path) -> None:
    texts, stderr = await searched(tmp_path, ranker="auto")
    assert [text for text in texts if "semantic" in text or "loading" in text] == []
    assert "list_issues" in texts[-1]
    assert "semantic" not in stderr


async def test_a_model_that_was_asked_for_and_is_not_installed_is_named_on_stderr_with_the_command(
    tmp_path: Path,
) -> None:
    texts, stderr = await searched(tmp_path, ranker="semantic")
    assert [text for text in texts if "semantic" in text or "loading" in text] == []
    assert install_command("semantic-light") in stderr
