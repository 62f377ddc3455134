"""Builds the approval channels of every installation: the host's form, the page and a desktop notification."""

from __future__ import annotations

from codemode_server.config.live import LiveConfig
from codemode_server.executions.approvals.channel import ApprovalChannel
from codemode_server.executions.approvals.desktop import DesktopChannel
from codemode_server.executions.approvals.elicitation import ElicitationChannel


def person_channels(config: LiveConfig, page: ApprovalChannel) -> tuple[ApprovalChannel, ...]:
    """The host's form, the page, and a notification on the desktop."""
    return ElicitationChannel(config), page, DesktopChannel(config)
