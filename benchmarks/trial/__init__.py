"""A trial with a model: the same tasks through several arms, against any OpenAI-compatible or Anthropic endpoint."""
