"""What the person's commands say of the protection of personal data."""

from __future__ import annotations

from typing import TYPE_CHECKING

from codemode_server.config.settings import Settings
from codemode_server.features.privacy.settings import PrivacySettings
from codemode_server.sandbox.registry import Check
from codemode_server.support.extras import missing_privacy

if TYPE_CHECKING:
    from codemode_server.app import App


def diagnosis(configured: Settings) -> Check:
    """For `doctor`."""
    settings = PrivacySettings.of(configured)
    if settings.is_on and (lacking := missing_privacy(settings.name_models)):
        why = f"privacy.servers protects results, and {lacking.reason}"
        return Check("privacy", "missing", why, lacking.command)
    return Check("privacy", "ok", settings.summary)


async def status_lines(app: App) -> list[str]:
    settings = PrivacySettings.of(app.config.settings)
    return [f"privacy: {settings.summary}"] if settings.is_on else []
