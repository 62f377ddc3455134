"""`sandbox.packages` from the configuration to the answer that a host gets: a real index on loopback, uv and WASM."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.behaviour.product import configuration, in_memory
from tests.sandbox.package_index import Index, wheel

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("package_cache")]
SKILL = "from greeting import hello\n\n\ndef greet(name):\n    return f'{hello} {name}'\n"


async def test_the_model_is_told_of_listed_packages_and_programs_and_skills_import_them(
    index: Index, tmp_path: Path
) -> None:
    index.add("greeting", {"greeting/__init__.py": "hello = 'hello'\n"})
    native = wheel("quick", {"quick/__init__.py": "from . import _core", "quick/_core.abi3.so": b"\x7fELF"})
    index.add_file("quick", "quick-1.0-cp314-abi3-manylinux_2_28_x86_64.whl", native)
    index.add_file("quick", "quick-1.0-cp314-abi3-manylinux_2_28_aarch64.whl", native)
    sandbox = {"backend": "wasm", "packages": ["greeting>=1", "quick"]}
    async with in_memory(configuration(tmp_path, {}, sandbox=sandbox)) as host:
        rules = (await host.client.list_tools()).tools[3].input_schema["properties"]["code"]["description"]
        imported = await host.run("import greeting\ngreeting.hello")
        refused = await host.run("import quick")
        misplaced = await host.run("open('/workspace/greeting.py', 'w').close()\nimport greeting\ngreeting.__file__")
        saved = await host.run(
            f"open('/skills/greet.py', 'w').write({SKILL!r})\nfrom skills import greet\ngreet('you')"
        )
    assert "Standard library and the packages greeting, quick only; no network" in rules
    assert imported.value == "hello"
    message = refused.error["message"]
    assert message.startswith(
        "not run:\nline 1: no module named 'quick': quick can't be imported without a microVM: it has native code"
    )
    assert misplaced.value == "/packages/greeting/__init__.py"
    assert saved.value == "hello you"


async def test_a_package_that_cant_be_installed_stops_no_program_and_is_named_with_the_reason(
    index: Index, tmp_path: Path
) -> None:
    """The index is asked once, also where a microVM is tried before WASM."""
    sandbox = {"backend": "auto", "packages": ["greetign"]}
    async with in_memory(configuration(tmp_path, {}, sandbox=sandbox)) as host:
        told = (await host.run("import greetign")).error["message"]
        assert (await host.run("1 + 1")).value == 2
    assert "no module named 'greetign': the user's packages are not installed: " in told
    assert told.count("greetign") >= 2, told
    assert index.requests == ["/simple/greetign/"]
