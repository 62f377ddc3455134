"""`python -m benchmarks.trial --model NAME --budget MONEY --prices IN,OUT`: see benchmarks/TRIAL.md.
`--report FILE` shows what the records of a trial say.

The key comes from the environment (TRIAL_KEY); so may the address, the wire format and the prices.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib
import json
import os
import re
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import anyio

from benchmarks.tasks.arms import ARMS
from benchmarks.trial import mcpmark, others, ours, plan, scripted
from benchmarks.trial.records import Records, RecordsError
from benchmarks.trial.report import report
from benchmarks.trial.run import BudgetSpent, Trial
from benchmarks.trial.task import Task
from benchmarks.trial.wire import WIRES, Endpoint, EndpointError, Prices

OK, STOPPED, WRONG = 0, 3, 2


def main(arguments: Sequence[str]) -> int:
    if len(arguments) == 2 and arguments[0] == "--report":
        print(report(Path(arguments[1])))
        return OK
    options = _parser().parse_args(arguments)
    arms = options.arm or ["direct", "deferred", "codemode-server"]
    tasks = [task for name in options.tasks or ["ours"] for task in suite(name)]
    tasks = [task for task in tasks if not options.only or task.name in options.only]
    if not tasks or len({task.name for task in tasks}) < len(tasks):
        return _fail("two tasks have the same name" if tasks else "no task")
    if options.scripted and not (all(task.solution for task in tasks) and {*arms} <= {*scripted.ARMS}):
        return _fail(f"--scripted has solutions for the arms {'; '.join(scripted.ARMS)}, and not for MCPMark")
    body = json.loads(options.body)
    with ExitStack() as stack:
        wire = WIRES[options.wire]
        base_url, model = (options.base_url or wire.base_url).rstrip("/"), options.model
        if options.scripted:
            base_url, model = stack.enter_context(scripted.Scripted(tasks).serve()), scripted.MODEL
        elif not model:
            return _fail("--model is missing")
        endpoint = Endpoint(wire, base_url, os.environ.get("TRIAL_KEY", ""), model, options.max_output_tokens, body)
        fixed = plan.plan(
            tasks,
            arms,
            options.runs,
            options.seed,
            {
                "wire": wire.name,
                "base_url": "loopback" if options.scripted else re.sub("//[^/@]*@", "//", base_url),
                "model": model,
                "body": body,
                "max_output_tokens": options.max_output_tokens,
            },
        )
        try:
            records = Records(options.out, fixed)
            stack.callback(records.close)
            trial = Trial(tasks, endpoint, prices(options.prices), options.budget, records, partial(print, flush=True))
            anyio.run(trial.run, plan.cells(tasks, arms, options.runs, options.seed))
        except BudgetSpent as error:
            print(f"stopped: {error}", file=sys.stderr)
            return STOPPED
        except (EndpointError, RecordsError) as error:
            return _fail(str(error))
    return OK


def suite(name: str) -> Sequence[Task]:
    """The tasks of a suite, or of a module of the user with `tasks()`.

    Raises:
        Unavailable: PyPI can't be had, which has those of others.
    """
    if name == "ours":
        return ours.tasks()
    if name in ("tau2", "bfcl"):
        return others.tasks_of(name)
    if name.startswith("mcpmark:"):
        return mcpmark.tasks_of(Path(name.removeprefix("mcpmark:")).resolve(), partial(print, file=sys.stderr))
    module = importlib.import_module(name)
    version = hashlib.sha256(Path(str(module.__file__)).read_bytes()).hexdigest()[:16]
    return [replace(task, version=f"{version} {task.version}".strip()) for task in module.tasks()]


def prices(text: str) -> Prices:
    """`IN,OUT[,READ[,WRITE]]`; what is left out is taken as if nothing was cached, and writing as a quarter more."""
    given = dict(zip(("input", "output", "read", "write"), map(float, text.split(",")), strict=False))
    return Prices(**{"read": given["input"], "write": given["input"] * 1.25} | given)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.trial", description=__doc__)
    env: Any = os.environ.get
    parser.add_argument("--model", help="as the endpoint calls it")
    parser.add_argument(
        "--arm", action="append", choices=ARMS, help="repeated; default: direct, deferred, codemode-server"
    )
    parser.add_argument(
        "--tasks", action="append", help="ours, tau2, bfcl, mcpmark:FOLDER, or a module with tasks(); repeated"
    )
    parser.add_argument("--only", action="append", help="the name of a task; repeated")
    parser.add_argument("--runs", type=int, default=5, help="of each task through each arm")
    parser.add_argument("--seed", type=int, default=1, help="of the order")
    parser.add_argument("--wire", choices=WIRES, default=env("TRIAL_WIRE", "openai"), help="or TRIAL_WIRE")
    parser.add_argument("--base-url", default=env("TRIAL_BASE_URL"), help="or TRIAL_BASE_URL; with /v1")
    parser.add_argument("--body", default="{}", help="JSON that is merged into each request; null leaves a key out")
    parser.add_argument("--max-output-tokens", type=int, default=8_192)
    parser.add_argument("--budget", type=float, required=True, help="money; it stops before a request beyond it")
    parser.add_argument(
        "--prices", default=env("TRIAL_PRICES"), required=not env("TRIAL_PRICES"), help="per million: IN,OUT,READ,WRITE"
    )
    parser.add_argument(
        "--out", type=Path, default=Path("trial.jsonl"), help="records, only appended; resumed if there"
    )
    parser.add_argument("--scripted", action="store_true", help="no model: a fake that says the reference solutions")
    return parser


def _fail(message: str) -> int:
    print(message, file=sys.stderr)
    return WRONG


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
