"""What is kept for later programs: its owner's only, bounded, private, and gone with the product, however that ends."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from codemode_server.domain.errors import MetaToolError
from codemode_server.domain.ids import PrincipalId
from codemode_server.domain.principals import Owner, Principal, Session
from codemode_server.executions.artifacts import ArtifactStore, Item, NotStored

LOCAL = Principal(PrincipalId("local"))
ADA, BOB = Owner(LOCAL, Session("ada")), Owner(LOCAL, Session("bob"))
PASSING, OTHER = (Owner(LOCAL, Session(name, is_ephemeral=True)) for name in ("p1", "p2"))


def store(folder: Path, *, session: int = 1_000, everything: int = 2_500) -> ArtifactStore:
    return ArtifactStore(folder / "kept", session, everything)


def keep(kept: ArtifactStore, owner: Owner, name: str, size: int = 100) -> None:
    kept.keep(owner, Item(name, "text", size, "text/plain"), b"x" * size)


def names(kept: ArtifactStore, owner: Owner) -> list[str]:
    return [item.name for item in kept.items(owner)]


def test_the_results_of_one_principal_displace_its_own_before_those_of_another(tmp_path: Path) -> None:
    kept = store(tmp_path, session=1_000, everything=2_500)
    other = Owner(Principal(PrincipalId("other")), Session("one"))
    keep(kept, other, "y1", 1_000)
    for number in range(4):
        keep(kept, Owner(LOCAL, Session(f"s{number}")), f"x{number}", 700)
    assert names(kept, other) == ["y1"]
    assert [names(kept, Owner(LOCAL, Session(f"s{number}"))) for number in range(4)] == [[], [], ["x2"], ["x3"]]
    keep(kept, other, "y2", 700)
    assert names(kept, other) == ["y2"], "the control: it has the most now, so its oldest goes"


def test_many_small_results_of_one_principal_displace_none_of_another(tmp_path: Path) -> None:
    kept = store(tmp_path, session=20_000, everything=50_000)
    other = Owner(Principal(PrincipalId("other")), Session("one"))
    keep(kept, other, "large", 10_000)
    for number in range(1_100):
        keep(kept, ADA, f"x{number}", 1)
    assert names(kept, other) == ["large"]
    assert (len(names(kept, ADA)), names(kept, ADA)[-1]) == (999, "x1099")


def test_its_session_reads_it_and_no_other_does(tmp_path: Path) -> None:
    kept = store(tmp_path)
    keep(kept, ADA, "x1")
    assert kept.read(ADA, "x1")[1] == b"x" * 100
    assert names(kept, ADA) == ["x1"]
    for stranger in (BOB, PASSING):
        with pytest.raises(MetaToolError, match="no result"):
            kept.read(stranger, "x1")
        assert names(kept, stranger) == []


def test_what_a_passing_session_keeps_is_had_by_its_name_but_never_listed(tmp_path: Path) -> None:
    """Each of its requests is a session of its own; the name can't be guessed."""
    kept = store(tmp_path)
    keep(kept, PASSING, "x1")
    assert kept.read(OTHER, "x1")[1] == b"x" * 100
    assert names(kept, PASSING) == names(kept, OTHER) == []
    with pytest.raises(MetaToolError):
        kept.read(ADA, "x1")


def test_past_what_a_session_may_keep_its_oldest_goes_and_nobody_elses(tmp_path: Path) -> None:
    kept = store(tmp_path)
    keep(kept, BOB, "b1", 900)
    for n in range(4):
        keep(kept, ADA, f"a{n}", 400)
    assert names(kept, ADA) == ["a2", "a3"]
    assert names(kept, BOB) == ["b1"]


@pytest.mark.parametrize(
    ("bounds", "why"),
    [({"session": 99}, "limits.kept_mb"), ({"everything": 99}, "state.kept_mb"), ({"session": 0}, "is 0")],
)
def test_what_is_too_large_is_not_kept_and_why_is_said(tmp_path: Path, bounds: dict[str, Any], why: str) -> None:
    with pytest.raises(NotStored, match=why):
        keep(store(tmp_path, **bounds), ADA, "x1")


def test_what_a_killed_product_left_is_removed_and_what_a_living_one_has_is_not(tmp_path: Path) -> None:
    """A real process, killed as it is; it and the living one have the same folder."""
    living = store(tmp_path)
    keep(living, ADA, "x1")
    code = (
        "import os, sys, pathlib\nfrom tests.executions.test_kept import *\n"
        "kept = store(pathlib.Path(sys.argv[1]))\nkeep(kept, ADA, 'x2')\nos.kill(os.getpid(), 9)"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=False, timeout=60)
    assert len(list((tmp_path / "kept").iterdir())) == 2, "control: it left something"
    assert store(tmp_path).clean_leftovers() == 1
    assert living.read(ADA, "x1")
    assert len(list((tmp_path / "kept").iterdir())) == 1
