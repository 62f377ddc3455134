"""Sandbox nodes that Ray starts on the machines of a cluster, one on each, as many as the running programs need.
deploy/README.md shows how.

No program and no secret passes through Ray: replicas, which are outside of the cluster, connect to the nodes, and the
token and the certificate are files on the machines.
"""

import asyncio
from math import ceil
from pathlib import Path
from typing import Any, Literal

import ray
from pydantic import BaseModel, ConfigDict
from ray import serve
from ray.serve.config import AutoscalingContext

from codemode_server.sandbox.registry import NodeControl, NodeOptions, serve_node


class Arguments(BaseModel):
    """Paths are those of the machines on which the nodes run."""

    model_config = ConfigDict(extra="forbid")

    certificate: Path
    """PEM file with its key, for the name in `sandbox.nodes`."""
    token: Path
    """File with the value of `sandbox.node_token`."""
    workspaces: Path | None = None
    backend: Literal["auto", "microsandbox", "wasm"] = "auto"
    port: int = 7000
    programs: int = 4
    """How many run at once on a node."""
    min_nodes: int = 1
    max_nodes: int = 10
    idle_seconds: float = 300
    """How long fewer nodes have to be enough before one is stopped."""
    stop_seconds: float = 600
    """How long the programs of a node that is stopped may go on; then they are interrupted."""


class Sandbox:
    """Runs a node in this process."""

    def __init__(self, arguments: Arguments) -> None:
        self._arguments = arguments
        self._control = NodeControl()
        options = NodeOptions(
            host=ray.util.get_node_ip_address(),
            port=arguments.port,
            token=arguments.token.read_text().strip(),
            certificate=arguments.certificate,
            workspaces=arguments.workspaces,
            backend=arguments.backend,
            programs=arguments.programs,
        )
        self._node = asyncio.get_running_loop().create_task(serve_node(options, print, self._control))

    def check_health(self) -> None:
        """Raises what ended the node, so that Ray starts another."""
        if self._node.done():
            self._node.result()
            raise RuntimeError("the node has ended")

    def record_autoscaling_stats(self) -> dict[str, float]:
        """The share of its places that is taken."""
        return {"load": self._control.programs / self._arguments.programs}

    async def __del__(self) -> None:
        self._control.is_stopping = True
        await self._node


def needed(context: AutoscalingContext) -> tuple[int, dict[str, Any]]:
    """So many nodes that a quarter of all places is free, for programs that come before the next node runs."""
    return ceil(sum(context.aggregated_metrics.get("load", {}).values()) / 0.75), {}


def nodes(arguments: Arguments) -> serve.Application:
    """The application, for `serve run` and for a RayService of KubeRay."""

    deployment = serve.deployment(
        Sandbox,
        name="sandbox",
        max_replicas_per_node=1,
        ray_actor_options={"num_cpus": 1},
        graceful_shutdown_timeout_s=arguments.stop_seconds,
        health_check_period_s=2,
        autoscaling_config={
            "min_replicas": arguments.min_nodes,
            "max_replicas": arguments.max_nodes,
            "upscale_delay_s": 2,
            "downscale_delay_s": arguments.idle_seconds,
            "metrics_interval_s": 1,
            "look_back_period_s": 2,
            "policy": {"policy_function": needed},
        },
    )
    return deployment.bind(arguments)
