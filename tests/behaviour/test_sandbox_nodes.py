"""The whole product with its programs on sandbox nodes, one of which is killed in the middle of a program."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import anyio

from codemode_server.sandbox.backends.remote.backend import RemoteBackend
from tests.behaviour.product import configuration, opened
from tests.cli.test_commands import command
from tests.sandbox.nodes import TOKEN, RunningNode, node

PROGRAM = """
from servers.salesforce import update_record
from servers.google_drive import get_document
for number in range(3):
    update_record(objectType='Lead', recordId=str(number), data={})
if get_document(documentId='a'):
    while not __import__('os').path.exists('/workspace/go_on'): pass
'done'
"""


def remote(*nodes: RunningNode) -> dict[str, Any]:
    return {"backend": "remote", "nodes": [it.address for it in nodes], "node_token": TOKEN}


async def test_a_program_whose_node_is_killed_is_resumed_on_another_and_sends_nothing_twice(tmp_path: Path) -> None:
    shared = ("--workspaces", tmp_path / "state" / "workspaces")
    async with (
        node(*shared) as one,
        node(*shared) as two,
        opened(configuration(tmp_path, sandbox=remote(one, two))) as (app, host),
    ):
        async with host.running(PROGRAM) as answers:
            await host.until(lambda: len(host.reached("get_document")) == 1)
            await anyio.sleep(0.2)
            backend = await app.sandbox.ready()
            assert isinstance(backend, RemoteBackend)
            (busy,) = [it.port for it, count in backend._running.items() if count]
            (one if one.port == busy else two).signal(signal.SIGKILL)
        (answer,) = answers
        assert answer.content["status"] == "sandbox_failed"
        assert "the sandbox node: it has closed the connection" in answer.text
        assert len(host.reached()) == 4

        (app.workspace(app.principal).path / "go_on").touch()
        resumed = await host.call("execute_code", resume=answer.content["execution_id"])
        assert resumed.value == "done"
        assert len(host.reached("update_record")) == 3
        assert len(await app.stores.journal.calls(app.principal, answer.content["execution_id"])) == 4


async def test_doctor_and_status_show_each_node_and_whether_it_answers(tmp_path: Path) -> None:
    async with node() as one, node() as two:
        configuration(tmp_path, {}, sandbox=remote(one, two))
        two.signal(signal.SIGKILL)
        await two.process.wait()
        doctor = await anyio.to_thread.run_sync(command, tmp_path, "--config upstream.yaml doctor --no-boot")
        assert f"node {one.address}" in doctor.stdout
        assert "wasm, without a shared workspace" in doctor.stdout
        assert f"node {two.address}" in doctor.stdout
        assert "programs will run in: wasm on 1 of 2 nodes" in doctor.stdout
        assert TOKEN not in doctor.stdout + doctor.stderr
        status = await anyio.to_thread.run_sync(command, tmp_path, "--config upstream.yaml status")
        assert "sandbox: wasm on 1 of 2 nodes" in status.stdout
