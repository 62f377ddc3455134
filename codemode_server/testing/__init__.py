"""What tests of guardrails need, also those of users."""
