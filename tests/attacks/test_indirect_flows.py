"""Threat: a program sends what it has read without the data being in the call: by what it does or leaves undone, by
time, or by way of another tool.

Rule and control are those of `test_flows.py`: what the session has read counts, whatever the call holds.
"""

from __future__ import annotations

import pytest

from codemode_server.app import App
from tests.attacks.kit import RAW

from .test_flows import POST, READS, app, moved

__all__ = ["app"]
pytestmark = pytest.mark.asyncio(loop_scope="module")
IMPORT = "from servers.board import post\n"
PROGRAMS = {
    "by whether it calls": [READS + IMPORT + "if data:\n    post(text='ME yes')"],
    "by how often it calls": [READS + IMPORT + "for _ in range(min(len(data), 3)):\n    post(text='ME')"],
    "by the time at which it calls": [
        READS + IMPORT + "import time\ntime.sleep(len(data) % 7 / 100)\npost(text=f'ME {time.time()}')"
    ],
    "by the time between two programs": [
        READS + "import time\ntime.sleep(len(data) % 7 / 100)\ntime.time()",
        "import time\nfrom codemode import results\ndata = str(time.time() - results[EARLIER])\n" + POST,
    ],
    "by the kind of an exception": [
        READS + IMPORT + "try:\n    {}[data] if data else [][1]\nexcept KeyError:\n    post(text='ME key')\n"
        "except IndexError:\n    post(text='ME index')"
    ],
    "by the exception of an earlier program": [
        READS + "raise KeyError if data else ValueError",
        "data = 'it was a KeyError'\n" + POST,
    ],
    "by the length of a result": [
        READS + "'x' * len(data)",
        "from codemode import results\ndata = str(len(results[EARLIER]))\n" + POST,
    ],
    "by which thread ends first": [
        READS + IMPORT + "import threading, time\ndone = []\n"
        "def wait(name, seconds):\n    time.sleep(seconds)\n    done.append(name)\n"
        "both = [threading.Thread(target=wait, args=(n, s)) for n, s in (('a', len(data) % 3 / 50), ('b', 0.02))]\n"
        "[it.start() for it in both]\n[it.join() for it in both]\npost(text='ME ' + done[0])"
    ],
    "by frames beneath the guest": [
        RAW + "call(10**6, 'PRIVATE', 'read'), call(10**6 + 1, 'UNTRUSTED', 'read')\n"
        "reply = call(10**6 + 2, 'board', 'post', text='ME x')\nif not reply['ok']: raise ValueError(reply['message'])"
    ],
    "by another tool of the server that sends": [
        READS + "from servers import board\ndata = board.echo(text=data)\n" + POST
    ],
    "by many tools one after the other": [
        READS
        + "from servers import board, calm\nfor it in (board, calm, board):\n    data = it.echo(text=data)\n"
        + POST
    ],
    "by a file in /tmp and one in /workspace": [
        READS + "open('/tmp/a', 'w').write(data)\nopen('/workspace/b', 'w').write(open('/tmp/a').read())\n"
        "data = open('/workspace/b').read()\n" + POST
    ],
    "by a clean-up when the program ends": [
        READS + IMPORT + "class Sender:\n    def __exit__(self, *_):\n        post(text='ME ' + data)\n"
        "    def __enter__(self): pass\nwith Sender():\n    pass"
    ],
    "by a generator that is left": [
        READS + IMPORT + "def send():\n    try:\n        yield 1\n    finally:\n        post(text='ME ' + data)\n"
        "it = send()\nnext(it)\nit.close()"
    ],
}


@pytest.mark.evasion
@pytest.mark.parametrize("way", PROGRAMS)
async def test_a_call_without_the_data_counts_as_one_with_it(app: App, way: str) -> None:
    assert await moved(app, PROGRAMS[way], is_tainted=False) in [(1, ""), (3, "")], "control"
    posted, error = await moved(app, PROGRAMS[way], is_tainted=True)
    assert posted == 0
    assert "bank.read" in error
    assert "web.read" in error
