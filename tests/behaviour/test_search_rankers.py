"""A search while the model is on its way, and once it is there: the whole product, the real model in its process."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from mcp import Client

from codemode_server.app import App
from codemode_server.config import load
from tests.behaviour.product import configuration
from tests.processes import all_gone
from tests.search.encoders import needs_light_packages
from tests.search.test_ranker_stack import level
from tests.waiting import until

needs_light_packages()


@pytest.mark.slow
async def test_a_search_is_answered_at_once_and_by_meaning_once_the_model_has_read_the_tools(tmp_path: Path) -> None:
    path = configuration(tmp_path, search={"ranker": "auto"})
    async with App.open(load(path)) as app:
        assert level(app.search.stack) == "lexical"
        async with Client(app.front) as client:
            first = await client.call_tool("search_tools", {"query": "send a message to a channel"})
            assert not first.is_error
            await until(lambda: level(app.search.stack) == "semantic")
            found = await client.call_tool("search_tools", {"query": "tell my colleagues in chat"})
            assert found.structured_content is not None
            assert found.structured_content["tools"][0]["server"] == "slack"
            encoder: Any = app.search.stack._vector_rankers[1]._encoder
            assert encoder.description == "all-MiniLM-L6-v2 (onnxruntime)"
            pid = encoder.pid
            os.kill(pid, 0)  # it is there
    await all_gone(pid)
