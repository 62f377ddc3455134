"""Listens, never decides: spans out of the other stages, to an OTLP collector or Langfuse if one is configured.

The stages use OpenTelemetry's API only; without an exporter their spans cost next to nothing and go nowhere.
"""
