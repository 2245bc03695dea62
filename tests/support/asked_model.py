"""A model that a test plays itself: settings that lead to it, its answers, and all that it was asked."""

import sys
from inspect import isawaitable
from itertools import count
from textwrap import dedent
from types import ModuleType

import graphmill as gm
from graphmill.core.model_call import FinishReason, ModelResponse
from graphmill.core.usage import Usage
from graphmill.graph.workflow import load_data

_numbers = count()


def answer(text="", *, reason="stop", tokens=(2, 1), **more):
    """Make an answer; each takes two tokens in and gives one out, unless said otherwise."""
    usage = Usage(requests=1, input_tokens=tokens[0], output_tokens=tokens[1], cost_nano=500_000_000)
    return ModelResponse(text=text, usage=usage, finish_reason=FinishReason(reason), model="played", **more)


def failing(error, **usage):
    """Give an error with what its call has used."""
    error.usage = Usage(requests=1, **usage)
    return error


class Played:
    """The model ``scripted/play`` of a folder: ``answers`` are given in turn, the last for good; what is an exception is raised.

    ``by`` is a function of the request that is asked instead.
    """

    def __init__(self, folder, monkeypatch):
        self.folder = folder
        self.asked = []
        self.answers = ["fine"]
        self.by = None
        self._module = ModuleType(f"played_{next(_numbers)}")
        self._module.play = self._play
        monkeypatch.setitem(sys.modules, self._module.__name__, self._module)
        monkeypatch.chdir(folder)
        monkeypatch.setenv("XDG_CONFIG_HOME", str(folder / "nobody"))
        self.settings("")

    def settings(self, text, provider=""):
        """Write graphmill.yaml; the provider ``scripted`` is the test's own."""
        own = f"providers:\n  scripted: {{address: '{self._module.__name__}:play'{provider}}}\n"
        (self.folder / "graphmill.yaml").write_text(own + dedent(text))

    async def _play(self, request):
        self.asked.append(request)
        found = self.by(request) if self.by is not None else self.answers[min(len(self.asked), len(self.answers)) - 1]
        if isawaitable(found):
            found = await found
        if isinstance(found, Exception):
            raise found
        return found if isinstance(found, ModelResponse) else answer(found)

    def run(self, params, *, model="scripted/play", inputs=None, **options):
        """Run one llm node once; give its result."""
        named = {} if model is None else {"model": model}
        given = {
            "inputs": {name: {} for name in inputs or {}},
            "nodes": [{"id": "ask", "type": "llm", "params": {**named, **params}}],
        }
        options.setdefault("policy", gm.Policy(retry=gm.Retry(attempts=3, wait_s=0, cap_s=0)))
        return gm.run(self.graph(given), inputs or {}, **options)

    def output(self, params, **options):
        """Run one that succeeds; give its output."""
        result = self.run(params, **options)
        assert result.error is None, f"{result.error}\n{result.error.traceback}"
        return result.output

    def failure(self, params, **options):
        """Run one that fails; give why."""
        result = self.run(params, **options)
        assert result.is_failure, result
        return result.error

    def graph(self, data):
        """Compile a workflow that is given as data, or as text of a file."""
        if isinstance(data, str):
            (self.folder / "w.yaml").write_text(dedent(data))
            return gm.load(self.folder / "w.yaml")
        return load_data(data)

    def texts(self):
        """Give the last message of each request."""
        return [request.messages[-1].text for request in self.asked]
