"""Messages are read from a stream the same wherever it is cut, and none is held that is longer than its limit."""

from __future__ import annotations

import anyio
import pytest

from codemode_server.processes.framing import FrameBuffer, FramingError, frame
from codemode_server.processes.stream_readers import ContentLengthReader, LineReader, content_length_message


class Chunks(anyio.abc.ByteReceiveStream):
    """A byte stream that gives what it has in pieces of a size."""

    def __init__(self, data: bytes, size: int) -> None:
        self.left, self._size = data, size

    async def receive(self, max_bytes: int = 65_536) -> bytes:
        if not self.left:
            raise anyio.EndOfStream
        piece, self.left = self.left[: self._size], self.left[self._size :]
        return piece

    async def aclose(self) -> None:
        pass


@pytest.mark.parametrize("size", [1, 3, 7, 1_000])
def test_a_buffer_gives_frames_with_their_prefix_once_they_are_whole(size: int) -> None:
    data, buffer, taken = b"a" + frame(b"one") + b"b" + frame(b""), FrameBuffer(prefix_bytes=1), []
    for start in range(0, len(data), size):
        buffer.add(data[start : start + size])
        while (found := buffer.take(3)) is not None:
            taken.append(found)
    assert taken == [b"aone", b"b"]
    assert buffer.is_empty


def test_a_frame_that_is_too_long_is_refused_before_it_has_come() -> None:
    buffer = FrameBuffer()
    buffer.add(frame(b"four"))
    assert buffer.take(4) == b"four", "control"
    buffer.add(frame(b"seven")[:4])
    with pytest.raises(FramingError, match="5 bytes, where 4"):
        buffer.take(4)


@pytest.mark.parametrize("size", [1, 3, 7, 1_000])
async def test_bodies_after_their_header_are_read_wherever_the_stream_is_cut(size: int) -> None:
    other = b"content-type: x\r\ncontent-length: 3\r\n\r\ntwo"
    reader = ContentLengthReader(Chunks(content_length_message(b"one") + other, size))
    assert [await reader.read(3), await reader.read(3)] == [b"one", b"two"]
    with pytest.raises(anyio.EndOfStream):
        await reader.read(3)


@pytest.mark.parametrize(
    "data",
    [content_length_message(b"four"), b"x: 1\r\n\r\nabc", b"Content-Length: x\r\n\r\n", b"Content-Length: -1\r\n\r\n"],
    ids=["too long", "no length", "no number", "negative"],
)
async def test_a_body_without_a_length_or_with_too_much_of_it_is_refused(data: bytes) -> None:
    with pytest.raises(FramingError):
        await ContentLengthReader(Chunks(data, 1_000)).read(3)


@pytest.mark.parametrize("size", [1, 3, 7, 1_000])
async def test_lines_are_read_wherever_the_stream_is_cut(size: int) -> None:
    reader = LineReader(Chunks(b"one\n\ntwo\nthe rest", size), lambda: 10)
    lines = [await reader.read() for _ in range(3)]
    assert [(bytes(line.data), is_whole) for line, is_whole in lines] == [(b"one", True), (b"", True), (b"two", True)]
    with pytest.raises(anyio.EndOfStream):
        await reader.read()


async def test_a_line_that_is_too_long_is_known_before_its_end_and_only_its_ends_are_held() -> None:
    stream = Chunks(b"<" + b"x" * 100_000 + b">\nnext\n", 20_000)
    reader = LineReader(stream, lambda: 10)
    long, is_whole = await reader.read()
    assert (long.is_too_long, is_whole) == (True, False)
    assert len(stream.left) > 80_000
    while not is_whole:
        line, is_whole = await reader.read()
        assert line is long
    assert (long.size, long.head[:1], long.tail[-1:], bytes(long.data)) == (100_002, b"<", b">", b"")
    assert len(long.head) + len(long.tail) < 10_000
    assert bytes((await reader.read())[0].data) == b"next", "control"
