"""Public test helpers for authors of guardrails."""
