"""A shop whose tools write down what they were asked: reading, writing, destroying, failing and ending ones.

Run as `shop.py LOG`. A line of the log is a tool and its arguments as JSON, in the order in which they came.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).parents[2]))

from tests.example_servers.plain import Server, ToolError

server = Server("shop")
READS = {"annotations": {"readOnlyHint": True}}


def noted(tool: str, *arguments: Any) -> None:
    with Path(sys.argv[1]).open("a") as log:
        log.write(f"{tool} {json.dumps(arguments)}\n")


@server.tool("Get the price of an item.", **READS)
def price(item: str) -> dict[str, Any]:
    noted("price", item)
    return {"item": item, "price": 7}


@server.tool("Order an item.")
def order(item: str, amount: int = 1) -> dict[str, Any]:
    noted("order", item, amount)
    return {"ordered": item, "amount": amount}


@server.tool("Remove an item for ever.", annotations={"destructiveHint": True})
def remove(item: str) -> str:
    noted("remove", item)
    return f"{item} is gone"


@server.tool("Pay a bill, which the bank declines.")
def pay(amount: int) -> str:
    noted("pay", amount)
    raise ToolError("the bank declined")


@server.tool("End the server in the middle of a call.")
def close() -> str:
    noted("close")
    os._exit(3)


@server.tool("Repeat a text.", **READS)
def say(text: str) -> str:
    noted("say", text)
    return text


if __name__ == "__main__":
    server.run()
