"""Many principals at once in one product: each has its turn, and no quota is exceeded at any moment."""

from __future__ import annotations

import resource

from benchmarks import principals

MAX_GROWTH_MIB = 64


async def test_64_executions_of_16_principals_hold_the_quotas_and_all_succeed() -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    found = await principals.measure()
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    assert found.succeeded == principals.PRINCIPALS * principals.EACH
    assert found.most_at_once == principals.PROGRAMS, "the control: they did run at once"
    assert found.most_of_principal == principals.OF_PRINCIPAL
    assert grown < MAX_GROWTH_MIB
