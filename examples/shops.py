"""The function of shops.yaml."""

from __future__ import annotations


async def label(product: str, shop: str) -> str:
    """Write the label of a product; a model or a server would be asked here."""
    return f"{product} at {shop}"
