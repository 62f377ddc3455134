"""The names of fields in HTML and XML are evidence, and a finding is the value alone, without the markup around it."""

from __future__ import annotations

import pytest

from codemode_server.privacy.detector import Detector
from codemode_server.privacy.replacing import replaced


def shown(text: str) -> str:
    found = Detector().in_value({"text": text}).found
    tokens = {(one.kind, one.value): f"<{one.kind.upper()}>" for one in found}
    made = replaced({"text": text}, found, tokens)
    assert isinstance(made, dict)
    return str(made["text"])


FORMS = {
    "table with headers": (
        "<table><tr><th>Name</th><th>Born</th></tr><tr><td>Ann Lee</td><td>1987-03-14</td></tr></table>",
        "<table><tr><th>Name</th><th>Born</th></tr><tr><td><NAME></td><td><BIRTH_DATE></td></tr></table>",
    ),
    "table whose first row is one of headers": (
        "<TABLE x=1>\n<TR><TD>Name</TD> <TD>Phone</TD>\n<TR><TD> <a><b>Xia Qrst</b></a> <TD>030 901820\n</TABLE></p>",
        "<TABLE x=1>\n<TR><TD>Name</TD> <TD>Phone</TD>\n<TR><TD> <a><b><NAME></b></a> <TD><PHONE>\n</TABLE></p>",
    ),
    "table with cells of several columns": (
        '<table><tr><th colspan="2">Order</th><th>Full name</th></tr>'
        "<tr><td>7</td><td>Blue Lamp</td><td>Ann Lee</td></tr>"
        "<tr><td colspan=2>Green Lamp</td><td>Xia Qrst</td></tr></table>",
        '<table><tr><th colspan="2">Order</th><th>Full name</th></tr>'
        "<tr><td>7</td><td>Blue Lamp</td><td><NAME></td></tr>"
        "<tr><td colspan=2>Green Lamp</td><td><NAME></td></tr></table>",
    ),
    "table with labels": (
        "<table><tr><td>Name:</td><td>Xiuying Qrst</td></tr><tr><td>Tel:</td><td>030 901820</td></tr></table>",
        "<table><tr><td>Name:</td><td><NAME></td></tr><tr><td>Tel:</td><td><PHONE></td></tr></table>",
    ),
    "table with headers in its rows": (
        "<table><tr><th>Full name</th><td>Xiuying Qrst</td></tr></table>",
        "<table><tr><th>Full name</th><td><NAME></td></tr></table>",
    ),
    "terms": (
        "<dl><dt>Name</dt><dd>Ann Lee</dd><dt>Date of birth:</dt><dd>1987-03-14</dd></dl>",
        "<dl><dt>Name</dt><dd><NAME></dd><dt>Date of birth:</dt><dd><BIRTH_DATE></dd></dl>",
    ),
    "label in bold type": ("<p><strong>Name:</strong> Ann Lee<br>1</p>", "<p><strong>Name:</strong> <NAME><br>1</p>"),
    "elements": (
        "<p><x:name>Xiuying Qrst</x:name>\n <x:birthDate>1987-03-14</x:birthDate> <id>1987-03-15</id></p>",
        "<p><x:name><NAME></x:name>\n <x:birthDate><BIRTH_DATE></x:birthDate> <id>1987-03-15</id></p>",
    ),
    "an order before a card": (
        "<e><order_number>7</order_number><payment>4111111111111111</payment></e>",
        "<e><order_number>7</order_number><payment><CARD></payment></e>",
    ),
    "a label in an element of HTML": (
        "<p><b>Phone</b> <b>030 901820</b></p><address>-</address>",
        "<p><b>Phone</b> <b><PHONE></b></p><address>-</address>",
    ),
    "element with CDATA": ("<name><![CDATA[Ann O'Lee]]></name>", "<name><![CDATA[<NAME>]]></name>"),
    "entity": (
        "<table><tr><th>Name</th></tr><tr><td>Ann O&#x27;Lee</td></tr></table>",
        "<table><tr><th>Name</th></tr><tr><td><NAME></td></tr></table>",
    ),
    "text after a table": (
        "<table><tr><th>Name</th></tr><tr><td>Ann Lee</td></tr></table> Tel: 030 901820, order 111222333",
        "<table><tr><th>Name</th></tr><tr><td><NAME></td></tr></table> Tel: <PHONE>, order 111222333",
    ),
}


@pytest.mark.parametrize("form", FORMS)
def test_values_are_found_by_the_names_of_their_fields(form: str) -> None:
    text, expected = FORMS[form]
    assert shown(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "<table><tr><th>Name</th><th>Price</th></tr><tr><td>Desk Lamp</td><td>12</td></tr></table>",
        "<table><tr><td>Name</td><td>Due</td></tr><tr><td>Blue Kettle</td><td>1987-03-14</td></tr></table>",
        "<project><name>Spring Boot</name><version>1.2.3.4</version><released>1987-03-14</released></project>",
        "<li>Ann Lee</li><td>1987-03-14</td>",
        "<name>Ann",
    ],
)
def test_names_of_products_and_other_dates_stay(text: str) -> None:
    assert shown(text) == text
