"""The functions that the workflows of ``benchmarks/workflows`` call; the peers call the same ones, so this file needs nothing installed."""

from __future__ import annotations


async def increased(number: int) -> int:
    return number + 1


async def doubled(number: int) -> int:
    return number * 2


async def as_text(number: int) -> str:
    return f"number {number}"


async def numbers(count: int) -> list[int]:
    return list(range(count))


async def rows(height: int, width: int) -> list[list[int]]:
    return [list(range(number * width, (number + 1) * width)) for number in range(height)]


async def texts(count: int, length: int) -> list[str]:
    return [f"{number:0{length}}" for number in range(count)]


async def reversed_text(text: str) -> str:
    """Give a string of its own, as long as the one it got."""
    return text[::-1]
