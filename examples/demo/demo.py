"""``make demo``: the main job of Graphmill in three minutes, without a key and, once set up, without a network.

1. Solver, verifier and judge over 200 problems: scripted agents, a server that answers 429 and 500, a budget, a score.
2. A real small model reads 60 messages; the run is killed half-way and resumed, and a call log shows that nothing is lost or doubled.
3. The real model solves two problems, badly, and one conversation is shown.
4. What to type to do the same with a model of your own choice.

``python -m examples.demo.demo --small`` does it with fewer items.
"""

from __future__ import annotations

import json
import math
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from genai_prices import Usage, calc_price

import graphmill as gm
from examples.demo.agents import (
    FIRST_RIGHT,
    INPUT,
    LATER_RIGHT,
    OUTPUT,
    WRONG_ACCEPTED,
    Agents,
    calculated_accuracy,
    make_problems,
)

HERE = Path(__file__).parent.resolve()
FOLDER = Path(".demo").resolve()
MODEL = "local/smollm2-135m"
COLUMNS = 118
AT_ONCE = 4  # calls of the real model
SHOWN = 3  # lines of items, of each command
IS_BRIGHT = sys.stdout.isatty() and "NO_COLOR" not in os.environ


def main() -> None:
    """Run the four parts; exit with 1 where something is not as promised."""
    is_small = "--small" in sys.argv[1:]
    began = time.monotonic()
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir()
    os.chdir(FOLDER)
    rehearse(40 if is_small else 200)
    extract(20 if is_small else 60)
    converse(1 if is_small else 2)
    invite()
    say(
        f"\nThe demo took {time.monotonic() - began:.0f} s. Its runs are in {FOLDER}/.graphmill: cd there and look around."
    )


# --- 1. solver, verifier and judge ---


def rehearse(count: int) -> None:
    """Run solve-verify-judge with scripted agents under a budget, continue it, and score it."""
    title(
        f"1. Solver, verifier and judge over {count} problems: a rehearsal",
        "The three agents are scripted, since real ones cost money: no model is called. Their server is real HTTP on this",
        f"machine. The solver is right {FIRST_RIGHT:.0%} of the time, {LATER_RIGHT:.0%} after a critique; the verifier accepts each right "
        f"answer and {WRONG_ACCEPTED:.0%}",
        "of the wrong ones. Now and then the server answers 429 (slow down) or 500 (broken).",
    )
    write_lines("problems.jsonl", make_problems(count))
    roles = ("solver", "verifier", "judge")
    with Agents() as agents:
        Path("graphmill.yaml").write_text(
            f"providers: {{agents: {{protocol: openai, address: '{agents.address}'}}}}\n"
            f"roles: {{{', '.join(f'{role}: agents/{role}' for role in roles)}}}\n"
            "prices:\n" + "".join(f"  agents/{role}: {{input: {INPUT}, output: {OUTPUT}}}\n" for role in roles)
        )
        budget = f"{0.0003 * count:.3f}"
        batch = ["batch", "solve-verify-judge", "--source", "problems.jsonl", "--run-id", "rehearsal"]
        command([*batch, "--concurrency", "32", "--max-tokens", "300", "--budget", budget], exit_code=4)
        say(f"Stopped by its budget of ${budget}, as asked. With a larger one it goes on where it was:")
        command(["resume", "rehearsal", "--budget", "1"])
        command(["score", "rehearsal", "--scorer", "numeric"])
        check_rehearsal(agents, count)


def check_rehearsal(agents: Agents, count: int) -> None:
    """Compare what was measured with what was calculated, and the run's cost with the server's ledger."""
    results = list(gm.open_run("rehearsal").results())
    right = [result.output["solution"] == result.input["ground_truth"] for result in results].count(True)
    share, calculated = right / count, calculated_accuracy()
    spread = 2 * (calculated * (1 - calculated) / count) ** 0.5
    cost = sum(result.cost_nano or 0 for result in results)
    says = agents.statuses
    proof(
        f"The server answered {says[200]} calls, and {says[429]} times 429 and {says[500]} times 500. No problem failed."
    )
    proof(
        f"Right: measured {share:.1%}, calculated {calculated:.1%} ± {spread:.1%}. The first answers alone: {FIRST_RIGHT:.0%}."
    )
    proof(f"Cost: the run says ${cost / 1e9:.6f}, the server's own ledger ${agents.billed_nano / 1e9:.6f}.")
    require(len(results) == count, "a problem has no result")
    require(all(result.output["error"] is None for result in results), "a problem has failed")
    require(abs(share - calculated) < 2 * spread, "the measured accuracy is not the calculated one")
    require(cost == agents.billed_nano, "the cost is not that of the ledger")


# --- 2. a real model, and kill -9 ---


def extract(count: int) -> None:
    """Run the extraction, kill it at 40 %, resume it, and compare the journal with the call log."""
    title(
        f"2. A real model on this machine reads {count} messages, and the run is killed",
        "SmolLM2, with 135 million parameters, reads order number, name and city from letters to a shop. A program verifies",
        "that each is in the letter; if not, the model tries again, at most three times.",
    )
    messages = [json.loads(line) for line in (HERE / "messages.jsonl").read_text().splitlines()[:count]]
    write_lines("messages.jsonl", [{"id": each["id"], "text": each["text"]} for each in messages])
    arguments = [
        "batch",
        str(HERE / "extract.yaml"),
        "--source",
        "messages.jsonl",
        "--model",
        MODEL,
        "--run-id",
        "letters",
    ]
    killed = Process([*arguments, "--concurrency", str(AT_ONCE)], is_logged=True)
    while len({item for item, _ in calls("answered")}) - AT_ONCE < 0.4 * count and killed.is_running():
        time.sleep(0.05)
    killed.kill()
    say(f"kill -9 {killed.pid}: the run is gone, and the model's process with it. It is resumed:")
    recorded = recorded_calls()
    before = len(calls("sent"))
    Process(["resume", "letters"], is_logged=True).wait(exit_code=0)
    check_letters({each["id"]: each["expected"] for each in messages}, recorded, calls("sent")[before:])


def check_letters(expected: dict[str, Any], recorded: Counter[Any], sent_later: list[Any]) -> None:
    """Check that nothing is lost and nothing doubled, by the call log, which is no part of the journal."""
    results = {result.job_id: result for result in gm.open_run("letters").results()}
    doubled = [call for call in sent_later if call in recorded]
    ends = Counter(calls("answered"))
    proof(
        f"Lost: {len(expected) - len(results)} of {len(expected)} letters. Calls recorded before the kill and sent again: {len(doubled)}."
    )
    again = len([call for call, times in Counter(calls("sent")).items() if times > 1])
    proof(
        f"In the call log: {len(calls('sent'))} calls, {again} of them twice: those that were not yet recorded at the kill."
    )
    verified = [name for name, result in results.items() if result.output["passed"]]
    right = [name for name, result in results.items() if result.output["fields"] == expected[name]]
    proof(
        f"{len(verified)} of {len(expected)} passed the program's check, {len(right)} are right in every field: it is a very small model."
    )
    require(set(results) == set(expected), "a letter has no result")
    require(not doubled, "a recorded call was sent again")
    require(recorded_calls().keys() <= ends.keys(), "the journal has a call that was never answered")
    require(again <= 2 * AT_ONCE, "more calls were repeated than were under way or waited for their commit")


def recorded_calls() -> Counter[Any]:
    """Count the answered calls in the journal: item and round."""
    steps = [(trace, step) for trace in gm.open_run("letters").traces() for step in trace.steps]
    return Counter((trace.item_id, step.round) for trace, step in steps if step.response is not None)


def calls(event: str) -> list[Any]:
    """Read the call log."""
    log = Path("calls.jsonl")
    lines = log.read_text().splitlines() if log.exists() else []
    return [tuple(line["call"]) for line in map(json.loads, lines) if line["event"] == event]


# --- 3. a conversation ---


def converse(count: int) -> None:
    """Let the real model debate with itself."""
    title(
        "3. The same workflow with the real model",
        "Solver, verifier and judge are all SmolLM2-135M. It writes like a model and reasons like none: expect nonsense.",
    )
    problems = [
        "Tom has 3 apples and buys 4 more. How many has he now?",
        "A box holds 6 eggs. How many are in 2 boxes?",
    ]
    write_lines(
        "words.jsonl",
        [
            {"id": f"w{n}", "problem": text, "domain": "math", "max_rounds": 2}
            for n, text in enumerate(problems[:count], 1)
        ],
    )
    Path("graphmill.yaml").write_text(TALK)
    command(
        ["batch", "solve-verify-judge", "--source", "words.jsonl", "--run-id", "talk", "--max-failures", "100%"],
        exit_code=None,
    )
    command(["show", "talk", "w1"], most_lines=60)


# It has to be kept short: left alone, it goes round in circles until its last token.
TALK = f"""
models:
  small: {{model: {MODEL}, temperature: 0.3, max_tokens: 500, extra: {{repeat_penalty: 1.1}}}}
roles:
  solver: {{model: small, stop: ["\\nNow", "\\nSo", "\\nHowever", "\\nBut"]}}
  verifier: small
  judge: small
"""


# --- 4. your turn ---

YOUR_MODEL, YOUR_COUNT = "gpt-5-mini", 200
ANSWER_TOKENS = (300, 3000)  # of one call: the reasoning of a model counts as output


def invite() -> None:
    """Say how to do it with a model of one's own choice, and what that may cost, by the prompts of part 1."""
    title("4. Your turn")
    used = [result.usage or {} for result in gm.open_run("rehearsal").results()]
    calls_each = sum(int(each["requests"]) for each in used) / len(used)
    input_each = sum(int(each["input_tokens"]) for each in used) / len(used)
    costs = [
        calc_price(
            Usage(input_tokens=round(input_each), output_tokens=round(calls_each * tokens)),
            YOUR_MODEL,
            provider_id="openai",
        ).total_price
        for tokens in ANSWER_TOKENS
    ]
    low, high = (float(cost) * YOUR_COUNT for cost in costs)
    say("The same with real problems, a real model and your own key:\n")
    say("    export OPENAI_API_KEY=…")
    say(f"    graphmill batch solve-verify-judge --source gsm8k --limit {YOUR_COUNT} --model openai/{YOUR_MODEL} \\")
    say(f"        --concurrency 32 --scorer math --budget {math.ceil(high)}\n")
    say(
        f"It costs about ${low:.2f} to ${high:.2f}: {calls_each:.1f} calls for each problem, as in part 1, whose answers have"
    )
    say(
        f"{ANSWER_TOKENS[0]} to {ANSWER_TOKENS[1]:,} tokens. The budget is a hard limit. --dry-run shows what would run."
    )


# --- telling it ---


def title(text: str, *lines: str) -> None:
    """Print the head of a part."""
    say(f"\n{bright(text)}\n{'─' * len(text)}")
    for line in lines:
        say(line)
    say("")


def proof(text: str) -> None:
    """Print what has been measured."""
    say(f"  {bright('→')} {text}")


def say(text: str) -> None:
    """Print a line at once."""
    print(text, flush=True)


def bright(text: str) -> str:
    """Make a text bold on a terminal."""
    return f"\033[1m{text}\033[0m" if IS_BRIGHT else text


def require(is_so: bool, otherwise: str) -> None:  # noqa: FBT001
    """Exit where a promise is broken."""
    if not is_so:
        sys.exit(f"demo: {otherwise}")


def write_lines(name: str, rows: Iterable[dict[str, Any]]) -> None:
    """Write rows as JSON Lines."""
    Path(name).write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))


def command(arguments: list[str], *, exit_code: int | None = 0, most_lines: int = 40) -> None:
    """Run a command to its end, as one would type it."""
    Process(arguments, most_lines=most_lines).wait(exit_code=exit_code)


class Process:
    """A running command, whose lines are shown; of many lines about items only the first."""

    def __init__(self, arguments: list[str], *, is_logged: bool = False, most_lines: int = 40) -> None:
        shown = [Path(each).name if each.startswith("/") else each for each in arguments]
        say(f"$ graphmill {shlex.join(shown)}")
        program = [str(HERE / "logged.py")] if is_logged else ["-m", "graphmill"]
        self._process = subprocess.Popen(
            [sys.executable, *program, *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={**os.environ, "LOG": "calls.jsonl"},
        )
        self._most_lines = most_lines
        self._reader = threading.Thread(target=self._show)
        self._reader.start()
        self.pid = self._process.pid

    def is_running(self) -> bool:
        """Whether it has not ended."""
        return self._process.poll() is None

    def kill(self) -> None:
        """Kill it, as the out-of-memory killer does."""
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()
        self._reader.join()

    def wait(self, *, exit_code: int | None) -> None:
        """Wait for its end."""
        found = self._process.wait()
        self._reader.join()
        require(exit_code in (None, found), f"the command ended with {found}, not with {exit_code}")

    def _show(self) -> None:
        items = lines = 0
        before = ""
        for line in map(str.rstrip, self._process.stdout or ()):
            progress = re.match(r"(\d+)/\d+ · \d+ running", line)
            if progress and progress[1] == before:
                continue
            before = progress[1] if progress else before
            is_item = line.lstrip().startswith("✓")
            items += is_item
            lines += not is_item
            if items <= SHOWN if is_item else lines <= self._most_lines:
                say(f"  {line if len(line) <= COLUMNS else line[: COLUMNS - 1] + '…'}")
            elif is_item and items == SHOWN + 1:
                say("    …")
        if lines > self._most_lines:
            say(f"  … and {lines - self._most_lines} lines more")
        say("")


if __name__ == "__main__":
    main()
