"""The attacks of the benchmark: an upstream that is asked for one it does not know would do nothing, at no cost."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.attack_table import ATTACKS, Attack
from benchmarks.attacks import HOSTILE

BY_UPSTREAMS = [attack for attack in ATTACKS.values() if attack.upstream]


@pytest.mark.parametrize("attack", BY_UPSTREAMS, ids=lambda attack: attack.name)
def test_what_an_upstream_is_asked_to_do_is_known_to_it(attack: Attack) -> None:
    assert f'"{attack.how}"' in Path(HOSTILE).read_text()
