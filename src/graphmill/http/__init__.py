"""HTTP for nodes and model providers; the only package that knows aiohttp."""
