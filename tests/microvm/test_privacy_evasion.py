"""Some programs of `tests/attacks/evading_programs.py` in a microVM: what its programs answer is searched as well."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.attacks.evading_programs import CAUGHT, HARMLESS, THROUGH, VALUE
from tests.attacks.test_privacy_evasion import READ, READ_HARMLESS, as_read, product
from tests.microvm.test_product import SLOW, host

pytestmark = [pytest.mark.microvm, pytest.mark.timeout(900)]
SOME = ("printed", "in an exception", "in a file that is shown", "a character in each item", "in base64")


async def test_programs_in_a_microvm_get_a_value_to_the_model_no_more_than_others(tmp_path: Path) -> None:
    if not os.environ.get("CODEMODE_VM"):
        pytest.skip("needs a microVM: make vmtest")
    sandbox = {"require": "microvm", "image": os.environ["CODEMODE_VM_IMAGE"]}
    config = product(tmp_path, "values", sandbox=sandbox, limits=SLOW)
    async with host(config) as run:
        for name in SOME:
            (program,) = CAUGHT[name].programs
            assert VALUE not in as_read(CAUGHT[name], [await run(READ + program)]).casefold(), name
            assert HARMLESS in as_read(CAUGHT[name], [await run(READ_HARMLESS + program)]), name
        codes = THROUGH["as codes of its characters"]
        assert as_read(codes, [await run(READ + codes.programs[0])]) == VALUE
