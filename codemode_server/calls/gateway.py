"""The one way to an upstream: resolves what a program names, and has the kernel make the call.

A call to a tool and the reading of a resource take the same path. Nothing in a call's frame says who calls: the
`ExecutionCalls` is bound to the sandbox's channel by the `ExecutionService`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol

from codemode_server.calls.events import CallEvents, CallUnresolved
from codemode_server.calls.execution_calls import ExecutionCalls
from codemode_server.calls.fitted_arguments import fitted_arguments
from codemode_server.calls.kernel import Kernel
from codemode_server.calls.resolver import TargetResolver
from codemode_server.calls.targets import READING, ToolTarget
from codemode_server.catalog.catalog import Server
from codemode_server.domain.errors import InvalidArguments, UnknownTool
from codemode_server.domain.tools import Effect
from codemode_server.sandbox.contract import ArgumentForms, Reply
from codemode_server.support.off_loop import is_large, run_sized


class SignIns(Protocol):
    """Offers the person to sign in to servers."""

    async def offer_for(self, calls: ExecutionCalls, servers: Iterable[Server]) -> bool:
        """Offer it for those that need it. Returns whether one is signed in to now."""


class Gateway:
    """Built once; holds no state of any call. Its calls raise `CallError`, with a message for the program, if they did
    not succeed, and `JournalUnavailable` if they could not be recorded; then only a call that reads may have been
    sent."""

    def __init__(
        self, resolver: TargetResolver, kernel: Kernel, events: CallEvents, sign_ins: SignIns | None = None
    ) -> None:
        self._resolver = resolver
        self._kernel = kernel
        self._events = events
        self._sign_ins = sign_ins

    def effect_of(self, server: str, tool: str) -> Effect:
        """Effect of a call of these raw names, as far as the catalog says."""
        return self._resolver.effect_of(server, tool)

    async def offer_sign_ins(self, calls: ExecutionCalls, modules: Iterable[str], *, is_rejected: bool) -> bool:
        """Offer the user to sign in to those servers of these modules, such as `servers.linear`, that need it. Returns
        whether one is signed in to now. `is_rejected`: the program was rejected; only tools that are not known yet can
        change that."""
        if self._sign_ins is None:
            return False
        servers = self._resolver.of_modules(modules)
        return await self._sign_ins.offer_for(calls, [it for it in servers if not (is_rejected and it.tools)])

    async def call(
        self,
        calls: ExecutionCalls,
        server: str,
        tool: str,
        arguments: dict[str, Any],
        *,
        raw: bool = False,
        forms: ArgumentForms = (),
    ) -> Reply:
        """Call a tool for an execution, named as in `servers.<server>.<tool>`, with raw argument names. `raw` returns
        the whole result as the upstream sent it, also if it is marked as an error."""
        try:
            target = self._resolver.tool(server, tool, is_raw=raw)
        except UnknownTool as error:
            raise self._unresolved(calls, server, tool, error) from None
        try:
            fitted = await _fitted(target, arguments, forms)
        except InvalidArguments as error:
            return await self._kernel.run(calls, target, arguments, refusal=error)
        return await self._kernel.run(calls, target, fitted)

    async def call_direct(self, calls: ExecutionCalls, server: str, tool: str, arguments: dict[str, Any]) -> Reply:
        """Call the tool of exactly these raw names, for a call without a program, with its whole result as the upstream
        sent it."""
        try:
            target = self._resolver.raw_tool(server, tool)
        except UnknownTool as error:
            raise self._unresolved(calls, server, tool, error) from None
        return await self._kernel.run(calls, target, await _fitted(target, arguments, ()))

    async def read(
        self, calls: ExecutionCalls, server: str, named: str, arguments: dict[str, Any] | None = None
    ) -> Reply:
        """Read a resource that a result of the same execution and server links to, or that the server lists, by its
        URI or name; `arguments` are those of a template."""
        try:
            target = self._resolver.resource(calls, server, named, arguments or {})
        except UnknownTool as error:
            raise self._unresolved(calls, server, READING, error) from None
        # The program's own spelling of a link: the upstream's may hold a secret.
        recorded = {"uri": named if target.is_linked else target.recorded_uri}
        return await self._kernel.run(calls, target, recorded)

    async def get_prompt(self, calls: ExecutionCalls, server: str, name: str, arguments: dict[str, Any]) -> Reply:
        """A prompt by the raw names, with the whole result as the upstream sent it."""
        try:
            target = self._resolver.prompt(server, name)
        except UnknownTool as error:
            raise self._unresolved(calls, server, name, error) from None
        return await self._kernel.run(calls, target, arguments)

    def _unresolved(self, calls: ExecutionCalls, server: str, tool: str, error: UnknownTool) -> UnknownTool:
        """The error of a call that does not reach the kernel; subscribers have seen it."""
        redactor = calls.caller.redactor
        names = redactor.line(server, 80), redactor.line(tool, 80)
        self._events.publish(CallUnresolved(calls, calls.next_seq(), *names, redactor.text(str(error))))
        return error


async def _fitted(target: ToolTarget, arguments: dict[str, Any], forms: ArgumentForms) -> dict[str, Any]:
    return await run_sized(is_large(arguments), fitted_arguments, target.tool, arguments, forms)
