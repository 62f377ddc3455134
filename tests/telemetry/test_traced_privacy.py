"""Where personal data is protected, traces have tokens as the model does, also with `state.payloads: all`.

The server, the product and the collector are real; each way is one that shows a value without the section.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.behaviour.product import over_stdio
from tests.behaviour.test_privacy_ways_out import CARD, EMAIL, NAME, PHONE, WAYS, people
from tests.telemetry.collector import collecting

VALUES = [value.encode() for value in (EMAIL, NAME, PHONE, str(CARD))]


@pytest.mark.parametrize("is_on", [True, False])
async def test_traces_have_no_value_that_has_a_token(tmp_path: Path, is_on: bool) -> None:
    with collecting() as collector:
        path = people(tmp_path, is_on=is_on)
        settings = json.loads(path.read_text())
        settings["state"]["payloads"] = "all"
        settings["tracing"] = {"otlp_endpoint": collector.endpoint}
        path.write_text(json.dumps(settings))
        async with over_stdio(path) as host:
            for code in WAYS.values():
                await host.run(code)
    found = [value for value in VALUES if value.lower() in collector.raw.lower()]
    assert found == ([] if is_on else VALUES)
    assert (b"<EMAIL_1>" in collector.raw) == is_on
