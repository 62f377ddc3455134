"""What programs get of pandas, numpy, matplotlib and PIL: tables as values and arguments, figures and pictures shown.

The runner of microVMs runs the programs in a process of this machine. WASM has none of these packages.
"""

from __future__ import annotations

import os
import struct
import sys
import textwrap
from pathlib import Path
from typing import Any

import anyio
import pytest

from codemode_server.domain.ids import ExecutionId
from codemode_server.sandbox.contract import Ending, Limits, Outcome, Program
from scripts import native_packages
from scripts.npm import Unavailable
from tests.sandbox.lab import Tools
from tests.sandbox.native import run_natively
from tests.tables import rows, tables

TABLES = tables(__file__)
pytestmark = pytest.mark.network
FRAME = """
import numpy as np, pandas as pd
days = pd.to_datetime(["2026-01-01", "2026-01-02", None])
frame = pd.DataFrame({"day": days, "region": ["n", "s", "n"], "amount": [1.5, None, 4.0]})
"""
FIGURE = """
import io
import matplotlib.pyplot as plt
import numpy as np
from PIL import Image
from codemode import show
figure, axes = plt.subplots(figsize=(4, 3))
(line,) = axes.plot([1, 2])
def drawn():
    data = io.BytesIO()
    figure.savefig(data)
    return data.getvalue()
"""
SLOW = "Matplotlib is building the font cache; this may take a moment.\n"
"""What it says where that takes five seconds."""
ECHO = "from servers.github import echo\n"


@pytest.fixture(scope="session")
def packages() -> Path:
    try:
        return native_packages.folder(".".join(map(str, sys.version_info[:2])))
    except Unavailable as reason:
        if os.environ.get("CI") == "true":
            pytest.fail(str(reason))
        pytest.skip(str(reason))


async def run(packages: Path, code: str, tools: Tools | None = None) -> Outcome:
    program = Program(ExecutionId("x0"), textwrap.dedent(code), Limits(wall_seconds=90))
    with anyio.fail_after(100):
        return await run_natively(program, tools or Tools(), packages=packages)


async def value_of(packages: Path, code: str, tools: Tools | None = None) -> Any:
    outcome = await run(packages, code, tools)
    assert (outcome.ending, outcome.stderr.replace(SLOW, "")) == (Ending.RETURNED, ""), outcome
    return outcome.value


async def test_tables_arrays_and_numbers_are_plain_values(packages: Path) -> None:
    """All in one program, as importing pandas takes longer than all of them."""
    code = f"{FRAME}\n{{{', '.join(f'{name!r}: {code}' for name, (code, _) in TABLES['values'].items())}}}"
    assert await value_of(packages, code) == {name: value for name, (_, value) in TABLES["values"].items()}


async def test_a_tool_gets_the_same(packages: Path) -> None:
    tools = Tools()
    code = FRAME + ECHO + "".join(f"echo({{'it': {code}}})\n" for code, _ in TABLES["values"].values())
    await value_of(packages, code, tools)
    assert [arguments["it"] for _, _, arguments in tools.calls] == [value for _, value in TABLES["values"].values()]


async def test_a_table_alone_is_json_that_is_stored_as_lists_are(packages: Path) -> None:
    outcome = await run(packages, f"{FRAME}frame[['region']]")
    assert (outcome.value, outcome.value_form) == ([{"region": "n"}, {"region": "s"}, {"region": "n"}], "json")


async def test_json_dumps_takes_tables_and_numbers(packages: Path) -> None:
    """A program that prints JSON, or passes it to a tool, fails with "int64 is not JSON serializable" elsewhere."""
    code = (
        f"{FRAME}import json\njson.dumps([frame.region.count(), np.arange(2), frame[['region']][:1], frame.amount[:1]])"
    )
    assert await value_of(packages, code) == '[3, [0, 1], [{"region": "n"}], [1.5]]'
    outcome = await run(packages, f"{FRAME}import json\njson.dumps(frame.groupby('region'))")
    assert outcome.error is not None
    assert outcome.error.message == "Object of type DataFrameGroupBy is not JSON serializable"


async def test_rows_of_a_tool_become_a_table(packages: Path) -> None:
    code = """
    import pandas as pd
    from servers.github import list_issues
    async def main():
        frame = pd.DataFrame(list_issues(repo="a"))
        return frame.explode("labels").groupby("labels").number.count()
    main()
    """
    assert await value_of(packages, code) == {"bug": 2, "ui": 1}


async def test_a_table_that_the_host_would_refuse_is_a_short_text_and_the_program_has_not_failed(
    packages: Path,
) -> None:
    """A million rows take 400 MB as dicts. Their calls are not lost, and a hint says what to do."""
    outcome = await run(packages, "import pandas as pd\npd.DataFrame({'a': range(1_000_000), 'b': 1.5})")
    assert (outcome.ending, outcome.value_form) == (Ending.RETURNED, "repr")
    assert outcome.value.endswith("[1000000 rows x 2 columns]")
    assert outcome.hint.startswith("the DataFrame of 1,000,000 rows has more than 500,000 values")
    within = await run(packages, "import numpy as np\n{'a': np.zeros(2_000_000), 'b': np.arange(490_000)[:2]}")
    assert (within.value_form, within.value["a"][:9], within.value["b"]) == ("json", "array([0.", [0, 1])
    assert within.hint.startswith("the ndarray of 2,000,000 values has more")


async def test_such_a_table_is_no_argument(packages: Path) -> None:
    tools = Tools()
    outcome = await run(packages, f"{ECHO}import pandas as pd\necho(rows=pd.DataFrame({{'a': range(300_000)}}))", tools)
    assert outcome.error is not None
    assert outcome.error.message == (
        "echo() can't send argument 'rows': the DataFrame of 300,000 rows has more than 500,000 values in JSON; "
        "send less of it, or in several calls"
    )
    assert tools.calls == []


async def test_nan_is_no_null_where_no_package_means_it_so(packages: Path) -> None:
    assert await value_of(packages, "[float('nan'), float('inf')]") == ["NaN", "Infinity"]


@pytest.mark.parametrize("code", rows(TABLES["pictures"]))
async def test_a_figure_or_picture_is_shown_as_png(packages: Path, code: str) -> None:
    tools = Tools()
    assert await value_of(packages, FIGURE + code, tools) is None
    ((data, mime_type, _),) = tools.shown
    assert (data[:8], mime_type in (None, "image/png")) == (b"\x89PNG\r\n\x1a\n", True)
    width, height = struct.unpack(">II", data[16:24])
    assert 300 < width < 500
    assert 200 < height < 400


async def test_plt_show_shows_each_figure_once(packages: Path) -> None:
    tools = Tools()
    assert await value_of(packages, f"{FIGURE}plt.figure()\nplt.show()\nplt.show()\nplt.get_fignums()", tools) == []
    assert len(tools.shown) == 2


@pytest.mark.parametrize("code", ["figure", "axes", "[line]", "Image.new('RGB', (4, 3))"])
async def test_a_figure_that_is_only_returned_says_how_it_is_shown(packages: Path, code: str) -> None:
    outcome = await run(packages, FIGURE + code)
    assert (outcome.ending, outcome.hint) == (
        Ending.RETURNED,
        "a figure or picture is shown by: from codemode import show; show(figure)",
    )


@pytest.mark.parametrize(("code", "hint"), rows(TABLES["hints"]))
async def test_a_line_that_used_a_table_or_file_wrongly_has_a_hint(packages: Path, code: str, hint: str) -> None:
    outcome = await run(packages, f"{FRAME}from servers.github import picture\n{code}")
    assert outcome.error is not None
    assert outcome.error.hint == hint


async def test_a_table_is_a_value_and_not_shown(packages: Path) -> None:
    outcome = await run(packages, f"{FRAME}from codemode import show\nshow(frame)")
    assert outcome.error is not None
    assert "a plain value is returned by ending the program with it; not DataFrame" in outcome.error.message
