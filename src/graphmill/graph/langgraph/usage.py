"""Counts the tokens of models that a LangGraph graph calls, by the ``usage_metadata`` of their messages."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from typing import Any

from graphmill.core.usage import LOST, Usage
from graphmill.engine.jobs.context import AttemptContext
from graphmill.graph.models.models import Models

_handler: ContextVar[Any] = ContextVar("graphmill_langchain_usage", default=None)


class CallUsage:
    """Collects the messages of one attempt that have a usage, each once, and reports them to its run."""

    def __init__(self, context: AttemptContext | None) -> None:
        self._context = context
        self._seen: dict[Any, Any] = {}
        self._new: list[Any] = []

    @contextmanager
    def collecting(self) -> Iterator[None]:
        """Collect the answers of all LangChain models that are called in this block, also in its threads."""
        token = _handler.set(_handler_type()(self.add))
        try:
            yield
        finally:
            _handler.reset(token)
            self.report()

    def add(self, message: Any) -> None:
        """Add a message, from any thread, unless it is known."""
        key = getattr(message, "id", None) or id(message)
        if key not in self._seen and isinstance(getattr(message, "usage_metadata", None), Mapping):
            self._seen[key] = message
            self._new.append(message)

    def add_all(self, state: Any) -> None:
        """Add the messages of a state, or of a node's update."""
        for message in _messages(state):
            self.add(message)

    def ignore_all(self, state: Any) -> None:
        """Count none of these messages: they were there before."""
        for message in _messages(state):
            self._seen[getattr(message, "id", None) or id(message)] = message

    def report(self) -> None:
        """Report what was added since the last time; on the loop."""
        new, self._new = self._new, []
        if self._context is None:
            return
        for message in new:
            name = _model_name(getattr(message, "response_metadata", None) or {})
            _, priced = Models.here().price(name, _usage(message.usage_metadata))
            self._context.report(priced, name)


def _messages(state: Any) -> Iterator[Any]:
    """Yield what may be a message, in a state or in the lists that are its values."""
    for value in state.values() if isinstance(state, Mapping) else [state]:
        for each in value if isinstance(value, list | tuple) else [value]:
            if hasattr(each, "usage_metadata"):
                yield each


def _usage(metadata: Mapping[str, Any]) -> Usage:
    """Read LangChain's counts; of what are no counts only the request is known."""
    read, written = metadata.get("input_token_details") or {}, metadata.get("output_token_details") or {}
    try:
        return Usage(
            requests=1,
            input_tokens=metadata.get("input_tokens") or 0,
            output_tokens=metadata.get("output_tokens") or 0,
            cached_tokens=read.get("cache_read") or 0,
            cache_written_tokens=read.get("cache_creation") or 0,
            reasoning_tokens=written.get("reasoning") or 0,
            unpriced=1,
        )
    except (ValueError, AttributeError):  # another library's own idea of it
        return LOST


def _model_name(metadata: Mapping[str, Any]) -> str:
    name = metadata.get("model_name") or metadata.get("model") or ""
    provider = metadata.get("model_provider")
    return f"{provider}/{name}" if name and provider else str(name)


@cache
def _handler_type() -> Any:
    """Make the type of callback handlers, which LangChain finds by our context variable from then on."""
    from langchain_core.callbacks import BaseCallbackHandler  # noqa: PLC0415  whoever has a graph has imported it
    from langchain_core.tracers.context import register_configure_hook  # noqa: PLC0415

    class AnswerHandler(BaseCallbackHandler):  # type: ignore[misc, unused-ignore]
        """Takes the message of each answer; LangChain need not call it for anything else, nor in a thread."""

        run_inline = True
        ignore_chain = ignore_agent = ignore_retriever = ignore_retry = ignore_custom_event = True

        def __init__(self, take: Any) -> None:
            super().__init__()
            self._take = take

        def on_llm_end(self, response: Any, **_: Any) -> None:
            for generations in response.generations:
                for generation in generations:
                    self._take(getattr(generation, "message", None))

    register_configure_hook(_handler, inheritable=True)
    return AnswerHandler
