"""Offers a sign-in to the person when a server refuses a call for the lack of one, and sends the call again."""

from __future__ import annotations

from codemode_server.calls.events import CallEvents, CallInputRequested
from codemode_server.calls.kernel import Call, Layer, Next
from codemode_server.domain.calls import RetryReason
from codemode_server.domain.errors import SignInRequired
from codemode_server.features.sign_in.sign_in_offers import OfferOutcome, SignInOffers
from codemode_server.sandbox.contract import Reply


class SignIn(Layer):
    def __init__(self, offers: SignInOffers, events: CallEvents) -> None:
        self._offers = offers
        self._events = events

    async def around(self, call: Call, proceed: Next) -> Reply:
        try:
            return await proceed(call)
        except SignInRequired as error:
            if SignIn in call.own:
                raise
            call.own[SignIn] = True
            call.progress.retry_reason = RetryReason.SIGN_IN  # from now on nothing has been sent
            outcome = await self._offers.offer(call.calls, call.record.server)
            if outcome is not OfferOutcome.NONE:
                event = CallInputRequested(call.calls, call.record, "sign-in", outcome.value, None)
                self._events.publish(event)
            if outcome is not OfferOutcome.SIGNED_IN:
                raise SignInRequired(f"{error}{outcome.remark}") from error
        return await proceed(call)
