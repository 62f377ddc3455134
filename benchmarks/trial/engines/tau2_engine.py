"""Eight tasks of tau2 on its engine: four of a shop, four of an airline, whose reference actions change the data.

tau2 has a model play the customer; here the customer's brief is one message, and says that all is confirmed. So the
results are not those of tau2. Its check is: the same database as after the reference actions, and what must be told.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from typing import Any

from benchmarks.trial.engines import journal

CHOSEN = {
    "retail": {"0": "tie", "16": "code", "20": "code", "23": "code"},
    "airline": {"17": "direct", "18": "code", "39": "tie", "44": "code"},
}
"""By domain, the ids with the expected winner. Their briefs leave no choice to a customer who would be asked."""
BRIEF = """\
A customer has sent this brief, in which "you" is the customer:

{known_info}
{reason_for_call}
{task_instructions}

The customer can't be asked anything, and has confirmed beforehand whatever follows from the brief and your policy. \
Do it, then say what you have done, with all figures that the customer wants to know.
"""


class Tau2:
    def tasks(self) -> Iterator[dict[str, Any]]:
        for domain, chosen in CHOSEN.items():
            policy = _domain(domain).get_environment().get_policy()
            for number, expected in chosen.items():
                task = _task(f"{domain}-{number}")
                told = vars(task.user_scenario.instructions)
                brief = BRIEF.format(**{name: text or "" for name, text in told.items()})
                yield {
                    "name": f"{domain}-{number}",
                    "expected": expected,
                    "system": policy,
                    "messages": [brief],
                    "servers": [domain],
                    "calls": [[[domain, it.name, it.arguments] for it in task.evaluation_criteria.actions]],
                    "answers": ["Done. " + ", ".join(task.evaluation_criteria.communicate_info or [])],
                }

    def tools(self, task: str, server: str) -> tuple[Iterable[tuple[str, str, dict[str, Any]]], Callable[..., str]]:
        environment = _domain(server).get_environment()
        definitions = [tool.openai_schema["function"] for tool in environment.get_tools()]
        return (
            ((it["name"], it["description"], it["parameters"]) for it in definitions),
            lambda name, arguments: _called(environment, name, arguments),
        )

    def check(self, task: str, messages: Sequence[journal.Calls], answers: Sequence[str]) -> str | None:
        domain, criteria = task.partition("-")[0], _task(task).evaluation_criteria
        reached, expected = _domain(domain).get_environment(), _domain(domain).get_environment()
        for calls in messages:
            for name, arguments in calls:
                journal.attempt(lambda *it: _called(reached, *it), name, arguments)
        for action in criteria.actions:
            _called(expected, action.name, action.arguments)
        if reached.get_db_hash() != expected.get_db_hash():
            return "the database differs from that after the reference actions"
        text = " ".join(answers).lower().replace(",", "")
        untold = [it for it in criteria.communicate_info or [] if it.lower() not in text]
        return f"the answer lacks {', '.join(untold)}" if untold else None


def _called(environment: Any, name: str, arguments: dict[str, Any]) -> str:
    text: str = environment.to_json_str(environment.make_tool_call(name, **arguments))
    return text


@cache
def _domain(name: str) -> Any:
    return importlib.import_module(f"tau2.domains.{name}.environment")


def _task(name: str) -> Any:
    domain, _, number = name.partition("-")
    return next(task for task in _domain(domain).get_tasks() if task.id == number)


if __name__ == "__main__":
    importlib.import_module("loguru").logger.remove()
    journal.main(Tau2(), sys.argv[1:])
