"""Solver, verifier and judge of solve-verify-judge, played by a server on this machine: what each says is decided by the test."""

import json
import re
from dataclasses import dataclass

from support.model_server import ModelServer, reply, said

NAME = "solve-verify-judge"
_PROBLEM = re.compile(r"problem (\S+)")
_FORMER = re.compile(r"^## Your answer of round \d+$", re.MULTILINE)
_ANSWERED = re.compile(r"attempt (\d+)")


@dataclass(frozen=True)
class Request:
    """What an agent is asked, as it came over the wire."""

    role: str
    problem: str
    round: int
    system: str
    prompt: str
    data: dict


def solution(request):
    """A solver that finds another answer in each round."""
    words = {1: "I guess wildly", 2: "Now by hand", 3: "Once more, by induction"}.get(request.round, "Again")
    attempt = f"attempt {request.round} at problem {request.problem}"
    return f"{words}: {attempt} gives \\boxed{{{request.round}}}.\n\nConfidence: 0.{request.round}"


def verification(*, passed, correctness=0.5, critique="step two is wrong"):
    """What a verifier answers."""
    scores = {"correctness": correctness, "completeness": 0.8, "clarity": 0.9}
    return json.dumps({"critique": critique, "scores": scores, "confidence": 0.7, "passed": passed})


def judgement(score=0.9):
    """What a judge answers."""
    return json.dumps({"reasoning": "it is right", "strengths": ["short"], "weaknesses": [], "score": score})


def ending(output):
    """How a debate ended."""
    return output["stop"], output["rounds"], output["best_round"], output["passed"]


class Agents:
    """The three models; ``solver``, ``verifier`` and ``judge`` return a text, or the bytes of a whole answer, for a Request."""

    def __init__(self, folder):
        self.asked = []
        self.solver = solution
        self.verifier = lambda request: verification(passed=True)
        self.judge = lambda request: judgement()
        self._server = ModelServer(answer=self._answer)
        self._folder = folder

    def __enter__(self):
        self._server.__enter__()
        roles = "".join(f"  {role}: own/{role}\n" for role in ("solver", "verifier", "judge"))
        address = f"providers: {{own: {{protocol: openai, address: '{self._server.url}/v1'}}}}\n"
        (self._folder / "graphmill.yaml").write_text(f"{address}roles:\n{roles}")
        return self

    def __exit__(self, *given):
        self._server.__exit__(*given)

    def of(self, role):
        """The requests to one agent."""
        return [request for request in self.asked if request.role == role]

    def _answer(self, asked):
        request = _read(asked.data)
        self.asked.append(request)
        made = getattr(self, request.role)(request)
        return made if isinstance(made, bytes) else said(made)


def passing_in(number):
    """A verifier that lets the answer of one round pass, and finds each answer better than the one before."""
    return lambda request: verification(
        passed=request.round == number, correctness=request.round / 10, critique=f"flaw {request.round}"
    )


def broken(request):
    """An agent whose server refuses the request for good."""
    return reply({"error": {"message": "this prompt is not accepted", "type": "invalid_request_error"}}, 400)


def _read(data):
    text = {"system": "", "user": ""}
    for message in data["messages"]:
        text[message["role"]] = text.get(message["role"], "") + str(message["content"])
    prompt, role = text["user"], data["model"]
    number = len(_FORMER.findall(prompt)) + 1
    if role != "solver":
        number = int(_ANSWERED.search(prompt)[1])
    return Request(role, _PROBLEM.search(prompt)[1], number, text["system"], prompt, data)
