"""The guardrails that come with the product."""
