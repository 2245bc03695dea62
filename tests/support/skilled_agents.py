"""Agents of stated skill for solve-verify-judge, behind a server on this machine that can be told to fail like a bad day.

What an agent answers follows from problem and round alone, so that every run of the same problems comes to the same results.
"""

import json
import re
from collections import Counter
from random import Random

from support.model_server import ModelServer, reply, said

SKILL = {"solver": 0.5, "verifier": 0.9}  # how often the solver is right, and the verifier sees whether it is
FAULTS = {"throttled": 0.10, "malformed": 0.05, "down": 0.03}
_NUMBER = re.compile(r"problem (\d+)")
_FORMER = re.compile(r"^## Your answer of round \d+$", re.MULTILINE)
_ROUND = re.compile(r"attempt (\d+)")


def problems(count):
    """Problems with their ground truth."""
    return [
        {"id": f"set/{number}", "problem": f"problem {number}: what is 7 × {number}?", "ground_truth": str(truth(number)),
         "domain": "math", "metadata": {"level": 1 + number % 5}}
        for number in range(count)
    ]  # fmt: skip


def truth(number):
    return 7 * number


def solves(number, round_number):
    """What the solver comes to: the truth, or one of three errors, so that it sometimes repeats itself."""
    drawn = Random(f"{number} {round_number}")
    return truth(number) + (0 if drawn.random() < SKILL["solver"] else drawn.choice([1, 2, 3]))


def _solver(number, round_number):
    return f"attempt {round_number} at it gives \\boxed{{{solves(number, round_number)}}}.\n\nConfidence: 0.{number % 9 + 1}"


def _verifier(number, round_number):
    is_right = solves(number, round_number) == truth(number)
    sees_it = Random(f"verifier {number} {round_number}").random() < SKILL["verifier"]
    scores = {"correctness": 0.9 if is_right else 0.2, "completeness": 0.8, "clarity": round_number / 10}
    return json.dumps(
        {"critique": f"of round {round_number}", "scores": scores, "confidence": 0.7, "passed": is_right == sees_it}
    )


def _judge(number, round_number):
    score = 0.9 if solves(number, round_number) == truth(number) else 0.1
    return json.dumps({"reasoning": f"of round {round_number}", "strengths": [], "weaknesses": [], "score": score})


_AGENTS = {"solver": _solver, "verifier": _verifier, "judge": _judge}


class SkilledAgents:
    """The server. ``answered`` counts the good answers by agent, problem and round, ``faults`` the other ones."""

    def __init__(self):
        self.has_faults = False
        self.answered = Counter()
        self.faults = Counter()
        self._failed_in_a_row = Counter()
        self._server = ModelServer(answer=self._answer)

    def __enter__(self):
        self._server.__enter__()
        return self

    def __exit__(self, *given):
        self._server.__exit__(*given)

    @property
    def settings(self):
        """The text of a graphmill.yaml for them."""
        provider = f"providers: {{own: {{protocol: openai, address: '{self._server.url}/v1'}}}}\n"
        return provider + "roles:\n" + "".join(f"  {role}: own/{role}\n" for role in _AGENTS)

    def _answer(self, asked):
        self._server.asked.clear()
        place = _place(asked.data)
        fault = self._fault(place) if self.has_faults else None
        if fault is None:
            self.answered[place] += 1
            return said(_AGENTS[place[0]](*place[1:]))
        self.faults[fault] += 1
        return _failing(fault, place)

    def _fault(self, place):
        """Draw what goes wrong with a request; never so often in a row that its step would run out of attempts."""
        draw = Random(f"{place} {self.answered[place]} {self.faults.total()}").choices
        (fault,) = draw([*FAULTS, None], [*FAULTS.values(), 1 - sum(FAULTS.values())])
        if fault != "throttled":
            self._failed_in_a_row[place] = 0 if fault is None else self._failed_in_a_row[place] + 1
            if self._failed_in_a_row[place] > 2:
                self._failed_in_a_row[place] = 0
                return None
        return fault


def _place(data):
    """Agent, problem and round of a request."""
    role, prompt = data["model"], next(each["content"] for each in data["messages"] if each["role"] == "user")
    number = len(_FORMER.findall(prompt)) + 1 if role == "solver" else int(_ROUND.search(prompt)[1])
    return role, int(_NUMBER.search(prompt)[1]), number


def _failing(fault, place):
    if fault == "throttled":
        return reply({"error": {"message": "slow down", "type": "rate_limit"}}, 429, headers={"Retry-After": "0"})
    if fault == "down":
        return reply({"error": {"message": "internal"}}, 500)
    if place[0] == "solver":
        return reply(b'{"choices": [{"mess')
    return said('{"critique": "it was cut')
