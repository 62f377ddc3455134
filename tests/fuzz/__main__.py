"""Runs the targets in this folder for longer than the tests do: `make fuzz FUZZ_SECONDS=3600`.

    python -m tests.fuzz [--seconds 60] [--only NAME] [--seed 0]

Each target gets an even share of the time, in rounds of some dozen examples, each with a seed of its own: 0, 1, 2 …
so a longer run does what a shorter one did and goes on. A failure is shown with its smallest example and its seed, and
belongs into the target's file as an `@example` when it is mended. An example that takes more than `EXAMPLE_S` ends the
run with the place where it hangs.
"""

from __future__ import annotations

import argparse
import faulthandler
import importlib
import resource
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hypothesis import seed

from tests.fuzz.strategies import use_profile

EXAMPLES = 40
EXAMPLE_S = 30
MEMORY_BYTES = 6 * 2**30


class Target:
    """One property, counted and timed."""

    def __init__(self, name: str, test: Any) -> None:
        self.name = name
        self.examples = 0
        self.slowest_s = 0.0
        self._test = test
        inner: Callable[..., None] = test.hypothesis.inner_test

        def timed(*args: Any, **kwargs: Any) -> None:
            began = time.perf_counter()
            faulthandler.dump_traceback_later(EXAMPLE_S, exit=True)
            try:
                inner(*args, **kwargs)
            finally:
                faulthandler.cancel_dump_traceback_later()
                self.examples += 1
                self.slowest_s = max(self.slowest_s, time.perf_counter() - began)

        test.hypothesis.inner_test = timed

    def run(self, seconds: float, first_seed: int) -> bool:
        """Whether it held for all of the time."""
        began = time.perf_counter()
        number = first_seed
        while True:
            try:
                seed(number)(self._test)()
            except Exception:  # noqa: BLE001 - whatever a target raises is what is looked for
                traceback.print_exc()
                self._say(f"FAILED with seed {number}: python -m tests.fuzz --only {self.name} --seed {number}")
                return False
            number += 1
            if time.perf_counter() - began >= seconds:
                self._say(f"seeds {first_seed} to {number - 1}")
                return True

    def _say(self, text: str) -> None:
        print(
            f"{self.name:<50} {self.examples:>8} examples, slowest {self.slowest_s * 1000:7.1f} ms, {text}", flush=True
        )


def targets(only: str) -> list[Target]:
    found = []
    for path in sorted(Path(__file__).parent.glob("test_*.py")):
        module = importlib.import_module(f"tests.fuzz.{path.stem}")
        for name, test in vars(module).items():
            if name.startswith("test_") and hasattr(test, "hypothesis"):
                full = f"{path.stem.removeprefix('test_')}.{name.removeprefix('test_')}"
                if only in full:
                    found.append(Target(full, test))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60, help="for all targets together")
    parser.add_argument("--only", default="", help="only targets with this in their names")
    parser.add_argument("--seed", type=int, default=0, help="the first one")
    asked = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    use_profile(EXAMPLES)
    found = targets(asked.only)
    if not found:
        sys.exit(f"no target has {asked.only!r} in its name")
    held = [target.run(asked.seconds / len(found), asked.seed) for target in found]
    print(f"{sum(held)} passed, {held.count(False)} failed")
    sys.exit(0 if all(held) else 1)


if __name__ == "__main__":
    main()
