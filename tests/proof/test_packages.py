"""Packages that people list, in real programs: installed from PyPI, run in WASM, on files of a real upstream server.

The host asks over stdio. The files are made here without any package, and what a program writes is read without one.
"""

from __future__ import annotations

import base64
import io
import os
import re
import zipfile
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from scripts.real_servers import commands
from tests.behaviour.product import Host, configuration, for_all, over_stdio
from tests.sandbox.packages_lab import make_cache, skip_without_network

pytestmark = [pytest.mark.slow, pytest.mark.network, pytest.mark.asyncio(loop_scope="module")]

PACKAGES = ["beautifulsoup4", "jinja2", "openpyxl", "pypdf", "python-dateutil", "tabulate"]
ROWS = 5_000
REGIONS = ("north", "south", "east")
MAIN = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
RELATIONS = "http://schemas.openxmlformats.org/package/2006/relationships"
TYPES = "http://schemas.openxmlformats.org/package/2006/content-types"
TYPE = "application/vnd.openxmlformats-officedocument.spreadsheetml"
PARTS = {
    "[Content_Types].xml": f'<Types xmlns="{TYPES}"><Default Extension="rels" ContentType="application/vnd.openxml'
    f'formats-package.relationships+xml"/><Override PartName="/xl/workbook.xml" ContentType="{TYPE}.sheet.main+xml"/>'
    f'<Override PartName="/xl/worksheets/sheet1.xml" ContentType="{TYPE}.worksheet+xml"/></Types>',
    "_rels/.rels": f'<Relationships xmlns="{RELATIONS}"><Relationship Id="r1" Type="{OFFICE}/officeDocument" '
    'Target="xl/workbook.xml"/></Relationships>',
    "xl/workbook.xml": f'<workbook xmlns="{MAIN}" xmlns:r="{OFFICE}"><sheets><sheet name="orders" sheetId="1" '
    'r:id="r1"/></sheets></workbook>',
    "xl/_rels/workbook.xml.rels": f'<Relationships xmlns="{RELATIONS}"><Relationship Id="r1" Type="{OFFICE}/worksheet" '
    'Target="worksheets/sheet1.xml"/></Relationships>',
}
PAGE = """<html><body><h1>Prices</h1><table id="other"><tr><td>x</td></tr></table>
<table id="prices"><thead><tr><th>Item</th><th>Price</th></tr></thead>
<tbody><tr><td>Tea &amp; milk</td><td>2.50</td></tr><tr><td><b>Cake</b></td><td>4.20</td></tr></tbody></table>
</body></html>"""
DATES = {
    "2026-03-04": "2026-03-04T00:00:00",
    "20260304T1530": "2026-03-04T15:30:00",
    "4 March 2026": "2026-03-04T00:00:00",
    "March 4th, 2026": "2026-03-04T00:00:00",
    "04.03.2026": "2026-03-04T00:00:00",
    "04/03/26": "2026-03-04T00:00:00",
    "Wed, 04 Mar 2026 15:30:00 +0100": "2026-03-04T15:30:00+01:00",
    "2026-03-04T15:30:00.5Z": "2026-03-04T15:30:00.500000+00:00",
    "4-Mar-2026 3:30 PM": "2026-03-04T15:30:00",
    "Mar 2026 4": "2026-03-04T00:00:00",
    "2026/3/4 15h30": "2026-03-04T15:30:00",
    "Wednesday 4 March 2026 15:30 UTC": "2026-03-04T15:30:00+00:00",
}
"""Twelve ways in which people write a day, and what each means, days first."""


def workbook() -> bytes:
    """Orders in a sheet: a number, a region, an amount."""
    lines = ['<row r="1"><c t="inlineStr"><is><t>' + '</t></is></c><c t="inlineStr"><is><t>'.join(HEAD) + END]
    for number in range(1, ROWS + 1):
        region = REGIONS[number % 3]
        cells = f'<c><v>{number}</v></c><c t="inlineStr"><is><t>{region}</t></is></c><c><v>{number / 4}</v></c>'
        lines.append(f'<row r="{number + 1}">{cells}</row>')
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED) as file:
        for name, text in PARTS.items():
            file.writestr(name, text)
        file.writestr(
            "xl/worksheets/sheet1.xml",
            f'<worksheet xmlns="{MAIN}"><sheetData>{"".join(lines)}</sheetData></worksheet>',
        )
    return data.getvalue()


HEAD = ("order", "region", "amount")
END = "</t></is></c></row>"


def letter(*pages: str) -> bytes:
    """A PDF with a line of text on each page."""
    kids = " ".join(f"{4 + 2 * number} 0 R" for number in range(len(pages)))
    objects = [
        "<< /Type /Catalog /Pages 2 0 R >>",
        f"<< /Type /Pages /Kids [{kids}] /Count {len(pages)} >>",
        "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    ]
    for number, text in enumerate(pages):
        drawn = f"BT /F1 12 Tf 72 720 Td ({text}) Tj ET"
        objects += [
            f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents {5 + 2 * number} 0 R "
            "/Resources << /Font << /F1 3 0 R >> >> >>",
            f"<< /Length {len(drawn)} >>\nstream\n{drawn}\nendstream",
        ]
    made, places = b"%PDF-1.4\n", []
    for number, text in enumerate(objects, 1):
        places.append(len(made))
        made += f"{number} 0 obj\n{text}\nendobj\n".encode()
    table = "".join(f"{place:010} 00000 n \n" for place in places)
    size = len(objects) + 1
    end = f"xref\n0 {size}\n0000000000 65535 f \n{table}trailer\n<< /Size {size} /Root 1 0 R >>\n"
    return made + f"{end}startxref\n{len(made)}\n%%EOF".encode()


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def host(real_servers: None, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Host]:
    folder = tmp_path_factory.mktemp("packages")
    files = folder / "files"
    files.mkdir()
    (files / "orders.xlsx").write_bytes(workbook())
    (files / "letter.pdf").write_bytes(letter("Invoice 2026-17", "Total: 42.50 EUR"))
    (files / "prices.html").write_text(PAGE)
    cache = make_cache(folder / "cache")
    command, *arguments = commands(["filesystem"])["filesystem"]
    servers = {"files": {"command": command, "args": [*arguments, str(files)]}}
    sandbox = {"backend": "wasm", "packages": PACKAGES}
    path = configuration(
        folder, servers, sandbox=sandbox, permissions={"rules": [{"allow": "*"}]}, limits={"wall_seconds": 90}
    )
    certificates = {name: os.environ[name] for name in ("SSL_CERT_FILE", "SSL_CERT_DIR") if name in os.environ}
    async with for_all(over_stdio(path, env={"XDG_CACHE_HOME": str(cache.parent), **certificates})) as host:
        answer = await host.run("import openpyxl")
        skip_without_network(answer.text)
        yield host


def files_of(host: Host) -> Path:
    return host.folder / "files"


async def test_a_workbook_of_5000_rows_is_read_and_another_is_written_from_it(host: Host) -> None:
    """The server writes texts only, and would write bytes as base64: they are refused. The program that says base64
    itself gets that; and it saves and shows the workbook."""
    code = f"""
import base64, io
from collections import defaultdict
from codemode import show
from openpyxl import Workbook, load_workbook
from servers.files import read_media_file, write_file

read = read_media_file(path={str(files_of(host) / "orders.xlsx")!r}).files[0].data
book = load_workbook(io.BytesIO(read), read_only=True)
rows = book["orders"].iter_rows(min_row=2, values_only=True)
totals = defaultdict(float)
count = 0
for order, region, amount in rows:
    totals[region] += amount
    count += 1

made = Workbook()
sheet = made.active
sheet.title = "totals"
sheet.append(["region", "total"])
for region, total in sorted(totals.items()):
    sheet.append([region, total])
made.save("/workspace/totals.xlsx")
data = open("/workspace/totals.xlsx", "rb").read()
write_file(path={str(files_of(host) / "totals.b64")!r}, content=base64.b64encode(data).decode())
show("/workspace/totals.xlsx")
try:
    write_file(path={str(files_of(host) / "totals.xlsx")!r}, content=data)
except ToolError as error:
    print(error)
[count, dict(totals)]
"""
    answer = await host.run(code)
    assert "'content' takes text, and these bytes are none" in answer.text
    assert not (files_of(host) / "totals.xlsx").exists()
    totals = {region: sum(n / 4 for n in range(1, ROWS + 1) if REGIONS[n % 3] == region) for region in REGIONS}
    assert answer.value == [ROWS, totals]
    written = base64.b64decode((files_of(host) / "totals.b64").read_text())
    with zipfile.ZipFile(io.BytesIO(written)) as file:
        cells = re.findall(r"<v>([^<]+)</v>", file.read("xl/worksheets/sheet1.xml").decode())
    assert {str(total).removesuffix(".0") for total in totals.values()} <= set(cells)
    assert "totals.xlsx: application/vnd.openxmlformats-officedocument.spreadsheetml.sheet" in answer.text


async def test_the_text_of_a_pdf(host: Host) -> None:
    code = f"""
import io
from pypdf import PdfReader
from servers.files import read_media_file
reader = PdfReader(io.BytesIO(read_media_file(path={str(files_of(host) / "letter.pdf")!r}).files[0].data))
[page.extract_text() for page in reader.pages]
"""
    assert (await host.run(code)).value == ["Invoice 2026-17", "Total: 42.50 EUR"]


async def test_dates_in_twelve_formats(host: Host) -> None:
    code = f"""
from dateutil.parser import parse
{{text: parse(text, dayfirst=text.startswith("04")) for text in {list(DATES)!r}}}
"""
    assert (await host.run(code)).value == DATES


async def test_a_zone_is_found_by_its_name(host: Host) -> None:
    code = """
from datetime import datetime
from dateutil import tz
datetime(2026, 7, 1, tzinfo=tz.gettz("Europe/Berlin"))
"""
    assert (await host.run(code)).value == "2026-07-01T00:00:00+02:00"


async def test_a_table_of_a_page_becomes_a_text(host: Host) -> None:
    code = f"""
from bs4 import BeautifulSoup
from tabulate import tabulate
from servers.files import read_text_file
page = BeautifulSoup(read_text_file(path={str(files_of(host) / "prices.html")!r})["content"], "html.parser")
rows = [[cell.get_text(strip=True) for cell in row.find_all(["th", "td"])] for row in page.select("#prices tr")]
print(tabulate(rows[1:], headers=rows[0], tablefmt="github"))
rows
"""
    answer = await host.run(code)
    assert answer.value == [["Item", "Price"], ["Tea & milk", "2.50"], ["Cake", "4.20"]]
    assert "| Tea & milk |     2.5 |".replace(" ", "") in answer.text.replace(" ", "")


async def test_a_template_is_filled(host: Host) -> None:
    code = """
from jinja2 import Template
Template("Dear {{ name }},{% for item in items %} {{ loop.index }}. {{ item|upper }}{% endfor %}").render(
    name="Ada", items=["tea", "cake"]
)
"""
    assert (await host.run(code)).value == "Dear Ada, 1. TEA 2. CAKE"
