"""``make simulate SEEDS=50000`` simulates the seeds 0 to 49,999; ``SEEDS=7-7`` one, ``SEEDS=100-199`` a hundred."""

import re
import sys
import time
from concurrent.futures import ProcessPoolExecutor, as_completed
from os import cpu_count

from simulation.scenario import Scenario
from simulation.shrink import told
from simulation.sweep import Sweep, sweep

_BLOCK = 250
_MOST_TOLD = 5


def seeds_of(text):
    """Read a count, or a range with both ends."""
    match = re.fullmatch(r"(\d+)(?:-(\d+))?", text)
    if match is None:
        raise SystemExit(f"SEEDS is a count such as 50000 or a range such as 7-7, not {text!r}")
    first, last = match.groups()
    return range(int(first)) if last is None else range(int(first), int(last) + 1)


def main():
    """Simulate on all cores, tell of the first failures, end with one line of figures."""
    seeds = seeds_of(sys.argv[1] if len(sys.argv) > 1 else "2000")
    began, total = time.monotonic(), Sweep()
    with ProcessPoolExecutor(cpu_count()) as pool:
        blocks = [pool.submit(sweep, block) for block in _blocks(seeds)]
        for done in as_completed(blocks):
            total.add(done.result())
            sys.stderr.write(f"\r{total.seeds:,}/{len(seeds):,} seeds, {len(total.broken)} broken")
    sys.stderr.write("\n")
    for seed in sorted(total.broken)[:_MOST_TOLD]:
        sys.stdout.write(f"{told(Scenario.of(seed), total.broken[seed])}\n\n")
    sys.stdout.write(f"{_figures(total, time.monotonic() - began)}\n")
    return 1 if total.broken else 0


def _blocks(seeds):
    return [seeds[start : start + _BLOCK] for start in range(0, len(seeds), _BLOCK)]


def _figures(total, elapsed_s):
    return (
        f"{total.seeds:,} seeds, {total.items:,} items, {total.attempts:,} attempts, {total.virtual_s / 3600:,.1f} virtual hours in "
        f"{elapsed_s:.1f} s ({total.seeds / elapsed_s:,.0f} seeds/s), {len(total.broken)} broken"
    )


if __name__ == "__main__":
    sys.exit(main())
