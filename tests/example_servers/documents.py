"""Upstreams that the examples of the seed documents name beside the office: calculator, weather, filesystem, users and
a github that has files.

Run as `documents.py NAME` over stdio; what was asked of it is logged as `office.py` does.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).parents[2]))

from tests.example_servers.office import noted
from tests.example_servers.plain import Server


def calculator(server: Server) -> None:
    @server.tool(description="Calculate the result of an arithmetic operation on two numbers.")
    def calculate(operation: str, a: float, b: float) -> float:
        noted("calculate", operation=operation, a=a, b=b)
        return {"add": a + b, "multiply": a * b}[operation]

    @server.tool(description="Add two numbers and get their sum.")
    def add(a: float, b: float) -> float:
        noted("add", a=a, b=b)
        return a + b

    @server.tool(description="Multiply two numbers.")
    def multiply(a: float, b: float) -> float:
        noted("multiply", a=a, b=b)
        return a * b


def weather(server: Server) -> None:
    @server.tool(description="Get the current weather of a city.")
    def get_weather(city: str) -> dict[str, Any]:
        noted("get_weather", city=city)
        return {"city": city, "celsius": 4}

    @server.tool(description="Get the weather forecast of a city for some days.")
    def get_forecast(city: str, days: int = 3) -> list[int]:
        noted("get_forecast", city=city, days=days)
        return [4] * days


def filesystem(server: Server) -> None:
    @server.tool(description="Read the text of a file.")
    def read_file(path: str) -> str:
        noted("read_file", path=path)
        return "5\n3\n"


def users(server: Server) -> None:
    @server.tool(description="Get the data of a user.")
    def get_user_data(user_id: int) -> dict[str, Any]:
        noted("get_user_data", user_id=user_id)
        return {"id": user_id, "status": "active" if user_id % 2 else "closed"}

    @server.tool(description="Send a notification to a user.")
    def send_notification(user_id: int) -> bool:
        noted("send_notification", user_id=user_id)
        return True


def github(server: Server) -> None:
    @server.tool(description="Get the contents of a file in a repository.")
    def get_file_contents(owner: str, repo: str, path: str) -> dict[str, str]:
        noted("get_file_contents", owner=owner, repo=repo, path=path)
        return {"path": path, "content": "It crashes.\n"}

    @server.tool(description="Create a new issue in a GitHub repository.")
    def create_issue(owner: str, repo: str, title: str, body: str = "") -> dict[str, Any]:
        return {"number": noted("create_issue", owner=owner, repo=repo, title=title, body=body) + 1}


if __name__ == "__main__":
    named = Server(sys.argv[1])
    {it.__name__: it for it in (calculator, weather, filesystem, users, github)}[named.name](named)
    named.run()
