"""Types of results against what eleven real servers give: learned from one half of the calls, checked against the
results of the other half by `mypy --strict`. Every call is made through the product's gateway.

The misses that are known stand here with their reasons; a new one fails the test.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import anyio
import pytest

from benchmarks.proof.calls import corpus
from benchmarks.proof.checking import Claim, refused
from benchmarks.proof.evidence import Evidence, corrupted, gather
from benchmarks.proof.keys import StubTypes
from benchmarks.proof.product import product
from codemode_server.catalog import shapes
from codemode_server.gateway.learning import contradiction

pytestmark = [pytest.mark.slow, pytest.mark.network, pytest.mark.timeout(300)]

KNOWN_MISSES = {
    "calc.math": "JavaScript writes 3.0 as 3: whole numbers that turn out to be fractions",
    "calc.url_parse": "its searchParams have keys that are data, and the two seen had none in common",
}


@pytest.fixture(scope="module")
def results(real_servers: None, tmp_path_factory: pytest.TempPathFactory) -> list[Evidence]:
    """What came of all calls after the learning half."""

    async def made(folder: Path) -> list[Evidence]:
        async with product(folder / "world") as running:
            return await gather(running)

    return anyio.run(partial(made, tmp_path_factory.mktemp("proof")))


@pytest.fixture(scope="module")
def complaints(results: list[Evidence]) -> dict[Claim, str]:
    """What the type checker says of them."""
    return refused(evidence.claim for evidence in results)


def test_the_servers_are_many_and_each_tool_is_called_in_both_halves() -> None:
    """The issue asks for eight servers."""
    calls = list(corpus())
    assert len({one.server for one in calls}) >= 8
    assert len(calls) >= 30
    assert all(one.learning and one.further for one in calls)


def test_further_results_are_of_the_types_that_were_learned(
    results: list[Evidence], complaints: dict[Claim, str]
) -> None:
    """Of tools that declare nothing, with arguments that ask for the same kind of thing."""
    checked = [it for it in results if it.half == "further" and it.tool.returned.origin == "observed"]
    missed = [it for it in checked if it.claim in complaints]
    assert len(checked) >= 90
    assert len(missed) <= 0.05 * len(checked), told(missed, complaints)
    assert {f"{it.tool.server}.{it.tool.name}" for it in missed} <= KNOWN_MISSES.keys(), told(missed, complaints)


def test_what_the_stub_tells_of_an_argument_is_what_comes_with_it(results: list[Evidence]) -> None:
    """`action="diff": DateResult`, where the type of all results is a union."""
    further = [it for it in results if it.half == "further"]
    narrow = {it.narrow_claim: it for it in further if it.narrow_claim is not None}
    assert len(narrow) >= 15
    assert {it.tool.name for it in narrow.values()} >= {"date", "ip", "math", "regex", "semver"}
    complaints = refused(narrow)
    missed = {narrow[claim].place: said for claim, said in complaints.items()}
    assert all(place.startswith("calc.math(") for place in missed), missed  # see KNOWN_MISSES


def test_every_tool_that_was_called_has_a_type(results: list[Evidence]) -> None:
    vague = {it.place for it in results if str(it.tool.returned.type) == "Any"}
    assert vague == set()


def test_results_are_of_the_types_that_servers_declare(results: list[Evidence], complaints: dict[Claim, str]) -> None:
    """Whatever the arguments: a declared type has them all in view."""
    checked = [it for it in results if it.tool.returned.origin == "declared"]
    assert len(checked) >= 70
    missed = [it for it in checked if it.claim in complaints]
    assert not missed, told(missed, complaints)


def test_results_gone_wrong_are_refused(results: list[Evidence], complaints: dict[Claim, str]) -> None:
    """The positive control: the same results with a key missing, or a value of another kind."""
    right = [it for it in results if it.half == "further" and it.claim not in complaints]
    wrong = list(dict.fromkeys(claim for it in right for claim in corrupted(it, required_keys(it))))
    assert len(wrong) >= 500
    assert set(Counter(claim.tool.returned.origin for claim in wrong)) == {"declared", "observed"}
    believed = set(wrong) - refused(wrong).keys()
    assert not believed, [f"{claim.tool.server}.{claim.tool.name}: {claim.value}" for claim in believed]


def test_what_the_product_calls_a_contradiction_the_type_checker_refuses(
    results: list[Evidence], complaints: dict[Claim, str]
) -> None:
    """Its own comparison knows shapes only; it may let pass what is no news, such as a further key, but not find fault
    where there is none. A truth value in place of a number is a fault that a type checker does not see."""
    told_by_product = {it.claim for it in results if differs(it) and not isinstance(it.reply.value, bool)}
    assert told_by_product
    assert told_by_product <= complaints.keys()


def test_another_kind_of_result_is_told(results: list[Evidence]) -> None:
    """`calc.regex` gives an object for a match and a text for a replacement, which the learning half has not seen."""
    (replaced,) = [it for it in results if it.tool.name == "regex" and it.arguments["action"] == "replace"]
    assert "it is str, not dict" in (differs(replaced) or "")


def differs(it: Evidence) -> str | None:
    return contradiction(it.tool, shapes.settled(shapes.of_reply(it.reply.value, it.reply.encoding)))


def required_keys(it: Evidence) -> dict[str, str]:
    """The keys that its type promises and their types, of the result itself or of the items of a list."""
    types = StubTypes(it.tool.stub.source, it.tool.name)
    return types.required_at(("[]",) if isinstance(it.reply.value, list) else ())


def told(missed: list[Evidence], complaints: dict[Claim, str]) -> str:
    return "\n".join(_lines(missed, complaints))


def _lines(missed: list[Evidence], complaints: dict[Claim, str]) -> Iterator[str]:
    for it in missed:
        yield f"{it.place} -> {it.tool.returned.type}: {complaints[it.claim]}"
