"""An upstream that lists its tools as a file says: `changing.py LOG LISTING`. It logs the calls that reach it.

The file is read for each listing. It has what differs from the tools as they are written here, by their names; a
different `name` renames a tool, null takes it out. `started` in a description becomes the number of this start. Of
`instructions` in the file, the server has those at its start.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).parents[2]))

from tests.example_servers.plain import Call, Server

LOG, LISTING = Path(sys.argv[1]), Path(sys.argv[2])


class Changing(Server):
    """Lists what the file says."""

    def _result(self, method: str) -> dict[str, Any]:
        answer = super()._result(method)
        if method == "tools/list":
            changed = [(tool, differences().get(tool["name"], {})) for tool in answer["result"]["tools"]]
            tools = [{**tool, **change} for tool, change in changed if change is not None]
            for tool in tools:
                tool["description"] = tool["description"].replace("started", f"start {STARTS}")
            answer["result"]["tools"] = tools
        if method in ("server/discover", "initialize") and "instructions" in differences():
            answer["result"]["instructions"] = differences()["instructions"]
        return answer

    def _called(self, params: dict[str, Any], call: Call) -> dict[str, Any]:
        with LOG.open("a") as log:
            log.write(json.dumps([params["name"], params.get("arguments")]) + "\n")
        names = {changed["name"]: name for name, changed in differences().items() if changed and "name" in changed}
        return super()._called({**params, "name": names.get(params["name"], params["name"])}, call)


def differences() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(LISTING.read_text()) if LISTING.exists() else {}
    return found


server = Changing("changing")


@server.tool("Send a message to somebody.")
def send(to: str, text: str = "") -> str:
    return f"sent to {to}"


@server.tool("Read the mail.")
def read_mail() -> str:
    return "no mail"


@server.tool("Change the listing.")
def change(listing: str) -> str:
    LISTING.write_text(listing)
    server.notify_tools_changed()
    return "changed"


def _starts() -> int:
    """How often a process of this log has started, with this one."""
    counter = LOG.with_suffix(".starts")
    number = int(counter.read_text()) + 1 if counter.exists() else 1
    counter.write_text(str(number))
    return number


STARTS = _starts()

if __name__ == "__main__":
    server.run()
