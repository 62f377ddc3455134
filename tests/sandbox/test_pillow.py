"""Pictures where Pillow is installed, as in a microVM whose image has it: the guest's modules in a plain process."""

from __future__ import annotations

import io

import pytest
from PIL import Image

from codemode_server.sandbox.guest.attachments import make_show
from codemode_server.sandbox.guest.files import File
from codemode_server.sandbox.guest.link import Link


def picture(form: str) -> bytes:
    buffer = io.BytesIO()
    Image.new("RGB", (64, 48), "teal").save(buffer, form)
    return buffer.getvalue()


class _Link(Link):
    """Notes what is asked of the host, in the host's place."""

    def __init__(self) -> None:
        self.call_bytes = 2**20
        self.asked: list[dict[str, object]] = []

    def ask(self, op: str, **fields: object) -> tuple[object, str]:
        self.asked.append({"op": op, **fields})
        return "shown", "json"


@pytest.mark.parametrize("form", ["PNG", "JPEG", "GIF", "WEBP"])
def test_a_picture_opens_as_one(form: str) -> None:
    file = File(picture(form), f"image/{form.lower()}")
    opened = file.image()
    assert (opened.size, opened.format) == ((64, 48), form)


@pytest.mark.parametrize(("form", "shown_as"), [("JPEG", "image/jpeg"), ("PNG", "image/png"), ("BMP", "image/png")])
def test_an_image_of_pillow_can_be_shown(form: str, shown_as: str) -> None:
    link = _Link()
    make_show(link, lambda value: value)(Image.open(io.BytesIO(picture(form))))
    assert [(asked["op"], asked["mime_type"]) for asked in link.asked] == [("show", shown_as)]
