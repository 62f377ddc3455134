"""Threat: a text of an upstream is cut in the midst of a secret, and the part that is left is not recognised.

Rule: a text is masked before it is cut, wherever that is, so nothing of a secret is left that would help to guess it.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.behaviour.product import configuration, in_memory, started

SERVER = Path(__file__).parent / "servers" / "padded.py"
SECRET = 'tok-Z7kQ9xw41LmN0pR2é"sVb5/H8jD3fGy6WcTq'
LINES = [f"MIIEpAIBAAKCA{n}QEA7bq+{n}Zk/9sT{n}vLw0yXcR{n}" for n in range(12)]
PEM = "\n".join(["-----BEGIN KEY-----", *LINES, "-----END KEY-----"])
WAYS = ["error", "structured error", "protocol error", "data of an error", "error of another form", "unmarked error"]
WAYS += ["value"]
_LONGEST_PART = 7
"""Characters of a secret in a row that may be somewhere by chance."""


PROGRAM = """
import codemode
from servers.padded import tell
told = []
for limit in (32, 90, 120, 150, 160, 200, 300, 1_500, 2_000, 4_096, 8_000):
    for before in range(limit - 36, limit, 9):
        try:
            told.append(tell(how=WAY, before=before, after=3_000))
        except codemode.ToolError as error:
            told += [str(error), repr(error)]
text = repr(told)
open("/workspace/told.txt", "w").write(text)
raise ValueError([len(text), text[-500:]])
"""


def upstream(*words: str, before: int = 0) -> dict[str, Any]:
    environment = {"SECRET_TOKEN": SECRET, "SECRET_KEY": PEM.replace("\n", "\\n"), "BEFORE": str(before)}
    return started(SERVER, *words) | {"env": environment}


def parts_in(text: str) -> list[str]:
    """The parts of the secrets that are in a text, as they are or as JSON writes them."""
    secrets = (SECRET, json.dumps(SECRET)[1:-1], json.dumps(SECRET, ensure_ascii=False)[1:-1], *LINES)
    length = _LONGEST_PART + 1
    parts = {secret[start : start + length] for secret in secrets for start in range(len(secret) - length + 1)}
    return [part for part in parts if part in text]


def everything(answer: Any) -> str:
    return json.dumps(answer.result.model_dump(mode="json"), ensure_ascii=False)


async def test_a_text_without_a_secret_is_told(tmp_path: Path) -> None:
    """The positive control: what is asserted to be masked below is shown where it is no secret."""
    async with in_memory(configuration(tmp_path, {"padded": upstream()})) as host:
        answer = await host.run("from servers.padded import tell\ntell(how='', before=3, after=3)")
        assert answer.value == "abcnothingabc"


async def test_no_part_of_a_secret_is_left_of_what_a_call_gave(tmp_path: Path) -> None:
    """Padding up to and past each limit: of words for a call, of notes, and of errors."""
    async with in_memory(configuration(tmp_path, {"padded": upstream()})) as host:
        for way in WAYS:
            answer = await host.run(PROGRAM.replace("WAY", repr(way)))
            assert answer.error["type"] == "ValueError", answer.text
            assert parts_in(everything(answer)) == [], way
            (file,) = (tmp_path / "state").rglob("told.txt")
            assert "abc abc" in file.read_text(), way
            assert parts_in(file.read_text()) == [], way


async def test_no_part_of_a_secret_is_left_of_the_end_of_stderr(tmp_path: Path) -> None:
    """A key shows up line by line, and the tail of what was written may begin within one."""
    after = [0, 4_096 - 20, 8_192 - 60, 8_192 - 30, 8_192 - 10, 8_192 + 30, 20_000]
    servers = {f"{what}_{most}": upstream("start", what, before=most) for what in ("token", "pem") for most in after}
    async with in_memory(configuration(tmp_path, servers)) as host:
        text = (await host.call("list_dir", path="/servers")).text
        for server in servers:
            answer = await host.run(f"from servers.{server} import tell\ntell()")
            texts = text + everything(answer) + (await host.call("list_dir", path=f"/servers/{server}")).text
            assert "stderr" in texts, server
            assert parts_in(texts) == [], server
        kept = [path.read_bytes() for path in (tmp_path / "state").rglob("*") if path.is_file()]
        assert parts_in(b"\n".join(kept).decode("utf-8", "replace")) == []


async def test_no_part_of_a_secret_is_left_of_what_a_server_says_of_itself(tmp_path: Path) -> None:
    """Its instructions, of which a sentence is shown, and the description of a tool."""
    servers = {f"s{before}": upstream(before=before) for before in (0, 60, 150, 170, 195, 1_980, 32_740, 32_768)}
    async with in_memory(configuration(tmp_path, servers)) as host:
        shown = [
            (await host.call("list_dir", path="/servers")).text,
            (await host.call("search_tools", query="abc tell", detail_level="full")).text,
            *[(await host.call("read_tool", path=f"/servers/{name}/tell.py")).text for name in servers],
        ]
        assert "***abc" in "".join(shown)
        assert all("abc" in text for text in shown[3:])
        assert parts_in("".join(shown)) == []


async def test_no_part_of_a_secret_is_left_of_a_crash_in_a_call(tmp_path: Path) -> None:
    async with in_memory(configuration(tmp_path, {"padded": upstream()})) as host:
        answer = await host.run("from servers.padded import tell\ntell(how='crash', what='pem', after=8_192 - 40)")
        assert answer.content["calls"][0]["status"] == "unknown"
        texts = [everything(answer), (await host.call("list_dir", path="/servers")).text]
        assert parts_in("".join(texts)) == []
