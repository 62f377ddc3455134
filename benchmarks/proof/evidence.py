"""What the servers really gave: the learning half of the calls first, then the others, each beside the stub as it was
when the learning half was over."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from benchmarks.proof.calls import Arguments, Half, corpus
from benchmarks.proof.checking import Claim, as_source
from benchmarks.proof.product import Product
from codemode_server.catalog.catalog import Tool
from codemode_server.catalog.untrusted import literal
from codemode_server.sandbox.contract import Reply


@dataclass(frozen=True)
class Evidence:
    """One real result."""

    tool: Tool
    """As it stood after the learning half."""
    half: Half
    arguments: Arguments
    reply: Reply

    @cached_property
    def claim(self) -> Claim:
        """That it is of the type that the stub gives."""
        return Claim(self.tool, as_source(self.reply))

    @property
    def narrow_claim(self) -> Claim | None:
        """That it is of the type that the stub gives to results of calls with one of these arguments, if it does."""
        names = {parameter.name: parameter.raw_name for parameter in self.tool.parameters}
        for case in self.tool.returned.by_argument:
            given = self.arguments.get(names[case.parameter])
            if (literal(given) if given is not None else "") == case.value:
                return Claim(self.tool, as_source(self.reply), str(case.type))
        return None

    @property
    def place(self) -> str:
        return f"{self.tool.server}.{self.tool.name}({self.arguments})"


async def gather(product: Product) -> list[Evidence]:
    """Make all calls, and keep what came of those after the learning half."""
    for calls in corpus():
        for arguments in calls.of("learning"):
            await product.call(calls.server, calls.tool, arguments)
    learned = product.catalog
    found = []
    halves: tuple[Half, ...] = ("further", "other")
    for half in halves:
        for calls in corpus():
            tool = learned.server(calls.server).tool(calls.tool)
            for arguments in calls.of(half):
                reply = await product.call(calls.server, calls.tool, arguments)
                found.append(Evidence(tool, half, arguments, reply))
    return found


def corrupted(evidence: Evidence, required: Mapping[str, str]) -> Iterator[Claim]:
    """The same result gone wrong, in ways that its type has to notice: a key that is always there is missing, and the
    value of one is of another kind."""
    value = evidence.reply.value
    record: Any = value[0] if isinstance(value, list) and value else value
    if evidence.reply.encoding != "json" or not isinstance(record, dict):
        return
    for key, type_ in sorted(required.items()):
        if key not in record:
            continue
        wrong = [{name: item for name, item in record.items() if name != key}]
        if type_ != "Any":
            wrong.append({**record, key: "of another kind" if isinstance(record[key], list) else [["of another kind"]]})
        for one in wrong:
            yield Claim(evidence.tool, repr([one] if isinstance(value, list) else one))
