"""Draw lines of a recorded demo: ``make demo > demo.txt; python examples/demo/picture.py demo.txt 1-40 > docs/demo.svg``."""

from __future__ import annotations

import sys
from html import escape
from pathlib import Path

WIDE, HIGH, MARGIN = 7.25, 17, 18
COLOURS = {"$": "#7ee787", "→": "#ffd866", "✓": "#a5d6ff", "1": "#ffffff", "2": "#ffffff", "3": "#ffffff"}


def main() -> None:
    """Print an SVG of these lines."""
    path, *ranges = sys.argv[1:]
    recorded = Path(path).read_text().splitlines()
    lines: list[str] = []
    for first, last in (map(int, each.split("-")) for each in ranges):
        lines += recorded[first - 1 : last]
    width = MARGIN * 2 + WIDE * max(map(len, lines))
    height = MARGIN * 2 + HIGH * len(lines)
    print(
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height}" width="{width:.0f}" height="{height}">'
    )
    print('<rect width="100%" height="100%" rx="8" fill="#161b22"/><g font-family="monospace" font-size="12">')
    for number, line in enumerate(lines):
        y = MARGIN + HIGH * number + 12
        colour = COLOURS.get(line.strip()[:1], "#c9d1d9") if line.strip()[1:2] in (" ", ".") else "#c9d1d9"
        print(f'<text x="{MARGIN}" y="{y}" fill="{colour}" xml:space="preserve">{escape(line)}</text>')
    print("</g></svg>")


if __name__ == "__main__":
    main()
