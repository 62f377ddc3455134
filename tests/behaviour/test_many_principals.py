"""Many principals at once in one product: each has its turn, and no quota is exceeded at any moment."""

from __future__ import annotations

import os
import sys

import pytest

from benchmarks import principals
from benchmarks.product import resident_mib

pytestmark = pytest.mark.slow

MAX_GROWTH_MIB = 64


@pytest.mark.skipif(sys.platform != "linux", reason="memory is read from /proc")
async def test_64_executions_of_16_principals_hold_the_quotas_and_all_succeed() -> None:
    before = resident_mib(os.getpid())
    found = await principals.measure()
    grown = resident_mib(os.getpid()) - before
    assert found.succeeded == principals.PRINCIPALS * principals.EACH
    assert found.most_at_once == principals.PROGRAMS, "the control: they did run at once"
    assert found.most_of_principal == principals.OF_PRINCIPAL
    assert grown < MAX_GROWTH_MIB
