"""The chat completions of OpenAI, and of every server that speaks them."""
