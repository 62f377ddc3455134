"""The one way to an upstream: resolves what a program names, and runs the call through the pipeline.

A call to a tool and the reading of a resource take the same path. Nothing in a call's frame says who calls: the
`ExecutionCalls` is bound to the sandbox's channel by the `ExecutionService`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from anyio.lowlevel import checkpoint

from codemode_server.calls.call_reports import CallReports
from codemode_server.calls.events import CallEvents, CallUnresolved, Subscriber
from codemode_server.calls.execution_calls import ExecutionCalls
from codemode_server.calls.fitted_arguments import fitted_arguments
from codemode_server.calls.pipeline import Approve, CallPipeline
from codemode_server.calls.policy.names import READ_METHOD
from codemode_server.calls.policy.policy import Policy, PolicyStep
from codemode_server.calls.targets import (
    READING,
    CallTarget,
    PromptTarget,
    ResourceTarget,
    ToolTarget,
)
from codemode_server.catalog.catalog import Catalog, Server, Tool
from codemode_server.config.live import LiveConfig
from codemode_server.domain.errors import UnknownTool
from codemode_server.domain.tools import Effect, UpstreamState
from codemode_server.features.direct_tools.tokens import count_direct_tokens
from codemode_server.features.guardrails.chain import NO_GUARDRAILS, GuardrailChain
from codemode_server.features.guardrails.guarded_calls import CallGuard
from codemode_server.features.learned_types.learning import Learning
from codemode_server.features.privacy.call_privacy import CallPrivacy
from codemode_server.features.sign_in.sign_in_offers import OfferOutcome, SignInOffers
from codemode_server.features.telemetry.call_tracing import CallTracing
from codemode_server.sandbox.contract import ArgumentForms, Reply
from codemode_server.support.off_loop import is_large, run_sized

if TYPE_CHECKING:
    from codemode_server.storage.sqlite_journal import SqliteJournal
    from codemode_server.upstreams.pool import UpstreamPool


class Gateway:
    """Built once; holds no state of any call."""

    def __init__(
        self,
        *,
        catalog: Callable[[], Catalog],
        upstreams: UpstreamPool,
        journal: SqliteJournal,
        config: LiveConfig,
        approve: Approve,
        learning: Learning | None = None,
        before_answer: Sequence[Subscriber] = (),
        subscribers: Sequence[Subscriber] = (),
        sign_in_offers: SignInOffers | None = None,
        policy_steps: Sequence[PolicyStep] = (),
        guardrails: GuardrailChain = NO_GUARDRAILS,
        privacy: CallPrivacy | None = None,
        prepare: Callable[[], Awaitable[None]] = checkpoint,
    ) -> None:
        """`prepare` lets `catalog` have all changes of listings so far.

        Without `learning`, observed result types are lost with the gateway.

        `policy_steps` restrict calls beside the rules of the configuration. `before_answer` receive the
        events of all calls, the end of a call before its program does; `subscribers` after the gateway's own ones.
        """
        self._catalog = catalog
        self._prepare = prepare
        self._config = config
        learning = learning or Learning(config=config)
        self._events = CallEvents(
            [*before_answer, CallTracing(config), CallReports(config)],
            after_answer=[learning.take_event, count_direct_tokens, *subscribers],
        )
        self._sign_in_offers = sign_in_offers
        self._pipeline = CallPipeline(
            upstreams=upstreams,
            journal=journal,
            events=self._events,
            config=config,
            guard=CallGuard(guardrails, Policy(config, policy_steps)),
            newest=self._newest,
            approve=approve,
            sign_in_offers=sign_in_offers,
            privacy=privacy or CallPrivacy(config),
        )

    def effect_of(self, server: str, tool: str) -> Effect:
        """Effect of a call of these raw names, as far as the catalog says."""
        if tool == READ_METHOD:
            return Effect.READS
        found = _by_raw_name(self._server(server), tool)
        return Effect.UNKNOWN if found is None else found.effect

    async def offer_sign_ins(self, calls: ExecutionCalls, modules: Iterable[str], *, is_rejected: bool) -> bool:
        """Offer the user to sign in to those servers of these modules, such as `servers.linear`, that need it, until
        one is not signed in to. Returns whether one is signed in to now.

        `is_rejected`: the program was rejected; only tools that are not known yet can change that.
        """
        if self._sign_in_offers is None:
            return False
        named = dict.fromkeys(module.split(".")[1] for module in modules)
        signed_in = False
        for name in named:
            server = self._catalog().by_name.get(name)
            if server is None or server.state is not UpstreamState.SIGNED_OUT or (is_rejected and server.tools):
                continue
            outcome = await self._sign_in_offers.offer(calls, server.raw_name)
            if outcome is not OfferOutcome.SIGNED_IN:
                if outcome.remark:
                    calls.messages.append(f"servers.{server.name}:{outcome.remark}")
                break
            signed_in = True
        return signed_in

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
        """Call a tool for an execution, named as in `servers.<server>.<tool>`, with raw argument names.

        `raw` returns the whole result as the upstream sent it, also if it is marked as an error. Raises `CallError`,
        with a message for the program, if the call did not succeed; `JournalUnavailable` if it could not be recorded,
        so it was not sent."""
        try:
            found = self._catalog().server(server)
            target = ToolTarget(found, found.tool(tool), is_raw=raw)
        except UnknownTool as error:
            raise self._unresolved(calls, server, tool, error) from None
        return await self._run_tool(calls, target, arguments, forms)

    async def _run_tool(
        self, calls: ExecutionCalls, target: ToolTarget, arguments: dict[str, Any], forms: ArgumentForms = ()
    ) -> Reply:
        fitted = await run_sized(is_large(arguments), fitted_arguments, target.tool, arguments, forms)
        return await self._pipeline.run(calls, target, fitted)

    async def call_direct(self, calls: ExecutionCalls, server: str, tool: str, arguments: dict[str, Any]) -> Reply:
        """Call the tool of exactly these raw names, for a call without a program, with its whole result as the upstream
        sent it; raises as `call` does."""
        offering = self._server(server)
        found = _by_raw_name(offering, tool)
        if offering is None or found is None:
            error = UnknownTool(f"{server!r} no longer has the tool {tool!r}; search_tools finds what it has now")
            raise self._unresolved(calls, server, tool, error)
        return await self._run_tool(calls, ToolTarget(offering, found, is_raw=True), arguments)

    async def read(
        self, calls: ExecutionCalls, server: str, named: str, arguments: dict[str, Any] | None = None
    ) -> Reply:
        """Read a resource that a result of the same execution and server links to, or that the server lists, by its
        URI or name; `arguments` are those of a template. Raises as `call` does."""
        try:
            target = ResourceTarget.of(calls, self._catalog().server(server), named, arguments or {})
        except UnknownTool as error:
            raise self._unresolved(calls, server, READING, error) from None
        # The program's own spelling of a link: the upstream's may hold a secret.
        recorded = {"uri": named if target.is_linked else target.recorded_uri}
        return await self._pipeline.run(calls, target, recorded)

    async def get_prompt(self, calls: ExecutionCalls, server: str, name: str, arguments: dict[str, Any]) -> Reply:
        """A prompt by the raw names, with the whole result as the upstream sent it; raises as `call` does."""
        offering = self._server(server)
        found = next((it for it in offering.listing.prompts if it.name == name), None) if offering else None
        if offering is None or found is None:
            error = UnknownTool(f"{server!r} no longer has the prompt {name!r}")
            raise self._unresolved(calls, server, name, error)
        return await self._pipeline.run(calls, PromptTarget(offering, found), arguments)

    async def _newest(self, target: CallTarget) -> CallTarget:
        """The same tool as its server lists it now; what is gone, or no tool, stays as it was."""
        if not isinstance(target, ToolTarget):
            return target
        await self._prepare()
        server = self._server(target.server.raw_name) or target.server
        return replace(target, server=server, tool=_by_raw_name(server, target.raw_name) or target.tool)

    def _server(self, raw_name: str) -> Server | None:
        return next((it for it in self._catalog().servers if it.raw_name == raw_name), None)

    def _unresolved(self, calls: ExecutionCalls, server: str, tool: str, error: UnknownTool) -> UnknownTool:
        """The error, which subscribers have seen."""
        redactor = calls.context.redactor
        names = redactor.line(server, 80), redactor.line(tool, 80)
        self._events.publish(CallUnresolved(calls, calls.next_seq(), *names, redactor.text(str(error))))
        return error


def _by_raw_name(server: Server | None, tool: str) -> Tool | None:
    return next((it for it in server.tools if it.raw_name == tool), None) if server else None
