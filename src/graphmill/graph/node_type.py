"""A node type: what it takes, what it gives, and the code that runs one step of it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Hashable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, NamedTuple, Protocol, TypeVar

import msgspec

from graphmill.core.errors import Permanent, UsageError
from graphmill.core.job import Effect
from graphmill.core.usage import RateLimits, Usage
from graphmill.engine.attempts.workers import C
from graphmill.engine.scheduling.rate_limits import LimitsOwner

if TYPE_CHECKING:
    from graphmill.graph.models.target import ModelTarget

P = TypeVar("P")
Isolation = Literal["process"]


class Output(NamedTuple):
    """What a step came to: its values by name, the action that chooses the edges, and flags of the job such as ``partial``."""

    values: Mapping[str, Any]
    action: str = "default"
    flags: frozenset[str] = frozenset()


class NodeCall(NamedTuple):
    """One attempt as the engine runs it: ``function(value)`` gives what ``run`` would.

    With ``isolation="process"`` the function is importable by its name and the value can be pickled. ``timeout_s`` is a limit that the
    params set, beside the node's own.
    """

    function: Callable[[Any], Any]
    value: Any
    isolation: Isolation | None = None
    timeout_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """Where a node stands while it is checked: its id, and the folder of its workflow file."""

    id: str
    root: Path | None = None


class StepContext(Protocol):
    """What the engine knows of an attempt."""

    usage: Usage | None

    @property
    def number(self) -> int:
        """Which attempt it is, from 1."""

    @property
    def item(self) -> str:
        """The id of its job."""

    @property
    def sample(self) -> int:
        """Which sample of its item the job is, from 1; 0 if it is done only once."""

    @property
    def timeout_s(self) -> float | None:
        """How long the attempt may take."""

    def shared(self, key: Hashable, make: Callable[[], C]) -> C:
        """Give what all attempts of the run have in common."""

    def idempotency_key(self) -> str:
        """Give a text that is the same in every attempt of its step."""

    def report(self, usage: Usage, model: str, *, is_answer: bool = True) -> None:
        """Add to what the attempt has used, of this model."""

    def wait_for_next_call(self, estimated_tokens: int) -> Awaitable[None]:
        """Wait until one more call may be made in this attempt."""

    def learn_limits(self, owner: LimitsOwner, stated: RateLimits) -> None:
        """Take what an answer says of an owner's limits."""

    def ask(self, question: Any) -> Awaitable[Any]:
        """Give the answer to a question, or end the attempt until there is one."""


class Context:
    """What a node's code may ask for beside its params, in one attempt; ``target`` is the model that it asks, if its type asks one."""

    __slots__ = ("_context", "path", "root", "target")

    def __init__(
        self,
        path: str,
        context: StepContext | None = None,
        *,
        root: Path | None = None,
        target: ModelTarget | None = None,
    ) -> None:
        self.path = path
        self.root = root
        self.target = target
        self._context = context

    @property
    def attempt(self) -> int:
        """The number of the attempt."""
        return 1 if self._context is None else self._context.number

    @property
    def item(self) -> str:
        """The id of the job."""
        return "" if self._context is None else self._context.item

    @property
    def sample(self) -> int:
        """Which sample of its item the job is, from 1; 0 if it is done only once."""
        return 0 if self._context is None else self._context.sample

    @property
    def idempotency_key(self) -> str:
        """The key to send with a request that must not happen twice."""
        return "" if self._context is None else self._context.idempotency_key()

    @property
    def timeout_s(self) -> float | None:
        """How long the attempt may take; the engine ends it then."""
        return None if self._context is None else self._context.timeout_s

    def shared(self, key: Hashable, make: Callable[[], C]) -> C:
        """Give what all attempts of the run have in common by this key, such as a pool of connections.

        It is made at first use, on the run's loop, and closed when the run ends.
        """
        if self._context is None:
            raise UsageError("what attempts share belongs to a run: gm.batch(graph, [item])")
        return self._context.shared(key, make)

    async def ask(self, question: Any) -> Any:
        """Ask a person: give the answer, or end the attempt and pause the job until there is one. Question and answer are any JSON."""
        if self._context is None:
            raise Permanent("what is not recorded, or runs in a worker process, can not ask")
        return await self._context.ask(question)

    async def again(self, weight: int) -> None:
        """Wait until the limits of the model allow one more call in this attempt, of so many tokens."""
        if self._context is not None:
            await self._context.wait_for_next_call(weight)

    def report_limits(self, owner: LimitsOwner, told: RateLimits) -> None:
        """Tell what an answer says of its model's limits, so that nothing is sent that is known to be refused."""
        if self._context is not None:
            self._context.learn_limits(owner, told)

    @property
    def usage(self) -> Usage | None:
        """What this attempt has used so far; None for nothing."""
        return None if self._context is None else self._context.usage

    def report_usage(self, usage: Usage, model: str = "", *, is_answer: bool = True) -> None:
        """Add to what this attempt has used of a model, by default its own; it counts although the attempt should fail.

        Say that it ``is_answer=False`` where the model was asked in vain: the result names those that have answered.
        """
        if self._context is not None:
            self._context.report(usage, model or ("" if self.target is None else self.target.lane), is_answer=is_answer)


class ParamError(ValueError):
    """What is wrong with a param; ``at`` says which, as a path of keys and indices inside the params."""

    def __init__(self, message: str, *, at: tuple[str | int, ...] = ()) -> None:
        self.at = at
        super().__init__(message)


class NodeType(Generic[P]):
    """One kind of node, in one file, made once and shared by all nodes of that kind; it holds no state.

    ``Params`` is a frozen msgspec.Struct that forbids unknown fields, each described by ``Annotated[…, msgspec.Meta(description=…)]``;
    None takes any mapping as it is. ``outputs`` says what each output is; None: any. ``untemplated`` params are taken as written;
    of those ``in_pieces`` the type is told, by ``pieces_of``, what stands in the workflow and what a template came to.
    Those that are ``incidental`` decide nothing of what comes out: a change of them is none of the node.
    A type that ``redacts_outputs`` has each secret in them replaced by ``{env: NAME}``.
    A param that is ``streamed`` may be the sequence of a large batch as it is; else all of it is brought in.
    What ``asks_model`` has params ``model`` and ``role``, which are made its context's target.
    What is not ``is_recorded`` is computed again instead. What ``is_end`` and returns the action ``end`` ends its workflow.
    ``example`` is the node as YAML, for the docs. ``packages`` are those of others that a step needs: a manifest notes their versions.
    ``package`` is set by the registry: name and version of what it was installed with.
    """

    name: ClassVar[str]
    summary: ClassVar[str]
    Params: ClassVar[type[msgspec.Struct] | None]
    outputs: ClassVar[Mapping[str, str] | None]
    untemplated: ClassVar[frozenset[str]] = frozenset()
    in_pieces: ClassVar[frozenset[str]] = frozenset()
    incidental: ClassVar[frozenset[str]] = frozenset()
    streamed: ClassVar[frozenset[str]] = frozenset()
    effect: ClassVar[Effect] = "repeatable"
    asks_model: ClassVar[bool] = False
    redacts_outputs: ClassVar[bool] = False
    is_recorded: ClassVar[bool] = True
    is_end: ClassVar[bool] = False
    example: ClassVar[str] = ""
    packages: ClassVar[tuple[str, ...]] = ()
    package: str = ""

    def check(self, params: Mapping[str, Any], site: Site) -> None:
        """Find, once, when the workflow is compiled, what is wrong with params as written whose shape is right; ParamError says what."""

    def output_names(self, params: Mapping[str, Any]) -> Collection[str] | None:
        """Name, of params as written, the outputs that a step will have; None: any."""
        del params
        return self.outputs

    def actions(self, params: Mapping[str, Any]) -> Collection[str] | None:
        """Name, of params as written, every action that a step may return; None: any."""
        del params
        return None

    def fingerprint(self, params: Mapping[str, Any]) -> str:
        """Give a text that changes when the code does that runs beside the params."""
        del params
        return self.package

    async def run(self, params: P, context: Context) -> Output | Mapping[str, Any]:
        """Run one attempt of a step with its params resolved; a mapping alone stands for ``Output(mapping)``."""
        raise NotImplementedError

    def isolation(self, params: Mapping[str, Any]) -> Isolation | None:
        """Say, of params as written, whether attempts run in a worker process; ``call`` then gives what is sent there."""
        del params
        return None

    def timeout_s(self, params: Mapping[str, Any]) -> float | None:
        """Give the limit of an attempt that params as written set, as a node's own ``timeout`` does."""
        del params
        return None

    def effect_of(self, params: Mapping[str, Any]) -> Effect:
        """Say, of params as written, whether a step may be run twice without harm."""
        del params
        return self.effect

    def call(self, params: P, context: Context) -> NodeCall:
        """Say how the engine is to run an attempt: ``run``, on the loop, unless the type knows better."""
        return NodeCall(partial(_run, self, context), params)


async def _run(node_type: NodeType[P], context: Context, params: P) -> Output | Mapping[str, Any]:
    return await node_type.run(params, context)
