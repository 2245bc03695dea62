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
from graphmill.core.result import Failure
from graphmill.core.usage import RateLimits, Usage
from graphmill.engine.attempts.workers import C
from graphmill.engine.scheduling.rate_limits import LimitsOwner

if TYPE_CHECKING:
    from graphmill.graph.models.target import ModelTarget

P = TypeVar("P")
Isolation = Literal["process"]


class Output(NamedTuple):
    """The output of a step: values by name, the action that selects edges, and flags of the job such as ``partial``."""

    values: Mapping[str, Any]
    action: str = "default"
    flags: frozenset[str] = frozenset()


class NodeCall(NamedTuple):
    """One attempt as the engine runs it: ``function(value)`` returns what ``run`` would.

    With ``isolation="process"`` the function must be importable by name and the value picklable. ``timeout_s`` is a
    limit from the params, in addition to the node's own.
    """

    function: Callable[[Any], Any]
    value: Any
    isolation: Isolation | None = None
    timeout_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """The node that is checked: its id, and the folder of its workflow file."""

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
    def job_input(self) -> Any:
        """The input of its job."""

    @property
    def timeout_s(self) -> float | None:
        """How long the attempt may take."""

    def shared(self, key: Hashable, make: Callable[[], C]) -> C:
        """Return what all attempts of the run have in common."""

    def idempotency_key(self) -> str:
        """Return a text that is the same in every attempt of its step."""

    @property
    def has_budget(self) -> bool:
        """Whether its run has a budget."""

    async def reserve(self, nano: int) -> bool:
        """Wait until the budget has room for a call that costs at most this; return whether it had to wait."""

    def release(self, nano: int) -> None:
        """Return what was reserved for a call that used nothing."""

    def report(
        self, usage: Usage, model: str, *, role: str = "", is_answer: bool = True, reserved_nano: int = 0
    ) -> None:
        """Add to what the attempt has used, of this model."""

    @property
    def job_time_s(self) -> float:
        """Seconds since its job began."""

    def record_call(self, encode: Callable[[Callable[[Failure], Failure] | None], bytes]) -> None:
        """Record a call of a model; ``encode`` gets what redacts the step's failures."""

    def wait_for_next_call(self, estimated_tokens: int) -> Awaitable[None]:
        """Wait until one more call may be made in this attempt."""

    def learn_limits(self, owner: LimitsOwner, stated: RateLimits) -> None:
        """Take what an answer says of an owner's limits."""

    def ask(self, question: Any) -> Awaitable[Any]:
        """Return the answer to a question, or end the attempt until there is one."""


class Context:
    """What a node's code can use in one attempt besides its params; ``target`` is the model it calls."""

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
        self._context: StepContext = context or _NO_STEP

    @property
    def attempt(self) -> int:
        """The number of the attempt."""
        return self._context.number

    @property
    def item(self) -> str:
        """The id of the job."""
        return self._context.item

    @property
    def sample(self) -> int:
        """Which sample of its item the job is, from 1; 0 if it is done only once."""
        return self._context.sample

    @property
    def job_input(self) -> Any:
        """The input of the job, the whole item; it must not be changed."""
        return self._context.job_input

    @property
    def idempotency_key(self) -> str:
        """The key to send with a request that must not happen twice."""
        return self._context.idempotency_key()

    @property
    def timeout_s(self) -> float | None:
        """How long the attempt may take; the engine ends it then."""
        return self._context.timeout_s

    def shared(self, key: Hashable, make: Callable[[], C]) -> C:
        """Return what all attempts of the run share under this key, such as a connection pool.

        It is made on first use, on the run's loop, and closed when the run ends.
        """
        return self._context.shared(key, make)

    async def ask(self, question: Any) -> Any:
        """Ask a person: return the answer, or pause the job until there is one. Question and answer are any JSON."""
        return await self._context.ask(question)

    async def wait_for_next_call(self, estimated_tokens: int) -> None:
        """Wait until the limits of the model allow one more call in this attempt."""
        await self._context.wait_for_next_call(estimated_tokens)

    def report_limits(self, owner: LimitsOwner, stated: RateLimits) -> None:
        """Report the rate limits that an answer states, so that calls are not refused."""
        self._context.learn_limits(owner, stated)

    @property
    def usage(self) -> Usage | None:
        """The usage of this attempt so far; None for none."""
        return self._context.usage

    def report_usage(
        self, usage: Usage, model: str = "", *, role: str = "", is_answer: bool = True, reserved_nano: int = 0
    ) -> None:
        """Add usage of a model, by default of the target; it counts even if the attempt fails.

        ``role`` is that of the node. Pass ``is_answer=False`` if the model did not answer: results name only models
        that did. ``reserved_nano`` is what the budget had reserved for it.
        """
        if not model and self.target is not None:
            model = self.target.lane
        self._context.report(usage, model, role=role, is_answer=is_answer, reserved_nano=reserved_nano)

    @property
    def has_budget(self) -> bool:
        """Whether the run has a budget."""
        return self._context.has_budget

    async def reserve(self, nano: int) -> bool:
        """Wait until the run's budget has room for a call that costs at most this; return whether it had to wait."""
        return await self._context.reserve(nano)

    def release(self, nano: int) -> None:
        """Return what was reserved for a call that used nothing."""
        self._context.release(nano)

    @property
    def job_time_s(self) -> float:
        """Seconds since the job began; 0 outside of a run."""
        return self._context.job_time_s

    def record_call(self, encode: Callable[[Callable[[Failure], Failure] | None], bytes]) -> None:
        """Record a call of a model where the run records them; ``encode`` returns it as JSON, in another thread."""
        self._context.record_call(encode)


class _NoStep:
    """The context of code that runs outside of a run, in a worker process, or in a step that is not recorded."""

    usage: Usage | None = None
    number = 1
    item = ""
    sample = 0
    job_input: Any = None
    timeout_s: float | None = None
    job_time_s = 0.0

    def record_call(self, encode: Callable[[Callable[[Failure], Failure] | None], bytes]) -> None:
        del encode

    def shared(self, key: Hashable, make: Callable[[], C]) -> C:
        del key, make
        raise UsageError("attempts can only share things in a run: gm.batch(graph, [item])")

    def idempotency_key(self) -> str:
        return ""

    def report(
        self, usage: Usage, model: str, *, role: str = "", is_answer: bool = True, reserved_nano: int = 0
    ) -> None:
        del usage, model, role, is_answer, reserved_nano

    has_budget = False

    async def reserve(self, nano: int) -> bool:
        del nano
        return False

    def release(self, nano: int) -> None:
        del nano

    async def wait_for_next_call(self, estimated_tokens: int) -> None:
        del estimated_tokens

    def learn_limits(self, owner: LimitsOwner, stated: RateLimits) -> None:
        del owner, stated

    async def ask(self, question: Any) -> Any:
        del question
        raise Permanent("cannot ask a question in a worker process, or in a step that is not recorded")


_NO_STEP = _NoStep()


class ParamError(ValueError):
    """A problem with a param; ``at`` is its path of keys and indices inside the params."""

    def __init__(self, message: str, *, at: tuple[str | int, ...] = ()) -> None:
        self.at = at
        super().__init__(message)


class NodeType(Generic[P]):
    """One kind of node, made once and shared by all nodes of that kind; it holds no state.

    ``Params`` is a frozen msgspec.Struct that forbids unknown fields, each with ``Annotated[…,
    msgspec.Meta(description=…)]``; None takes any mapping. ``outputs`` describes the outputs; None: any.

    Params: ``untemplated`` ones are taken as written; for those ``in_pieces``, ``pieces_of`` separates written text
    from the values of templates; ``incidental`` ones do not decide the output, so changing them does not change the
    node; ``streamed`` ones may be the sequence of a large batch, which is otherwise loaded into memory.

    Flags: a type that ``redacts_outputs`` has each secret in them replaced by ``{env: NAME}``; one that ``asks_model``
    has params ``model`` and ``role``, from which its context's target is made; one that is not ``is_recorded`` is
    computed again after a restart; one that ``is_end`` ends its workflow by returning the action ``end``.

    ``example`` is a node in YAML for the docs. ``packages`` are other packages that a step needs; a manifest records
    their versions. ``package``, set by the registry, is the name and version of the package that the type comes from.
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
        """Check params as written, whose shape is valid, when a workflow is compiled; ParamError says what is wrong."""

    def output_names(self, params: Mapping[str, Any]) -> Collection[str] | None:
        """Return the names of a step's outputs for params as written; None: any."""
        del params
        return self.outputs

    def output_schemas(self, params: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the JSON Schemas of a step's outputs, by name, as far as params as written tell."""
        del params
        return {}

    def actions(self, params: Mapping[str, Any]) -> Collection[str] | None:
        """Return the actions that a step may return for params as written; None: any."""
        del params
        return None

    def fingerprint(self, params: Mapping[str, Any]) -> str:
        """Return a text that changes when the code of the type changes."""
        del params
        return self.package

    async def run(self, params: P, context: Context) -> Output | Mapping[str, Any]:
        """Run one attempt of a step with resolved params; a mapping is the same as ``Output(mapping)``."""
        raise NotImplementedError

    def isolation(self, params: Mapping[str, Any]) -> Isolation | None:
        """Whether attempts with these params run in a worker process; ``call`` then returns what is sent there."""
        del params
        return None

    def memory_bytes(self, params: Mapping[str, Any]) -> int | None:
        """Return how much memory its worker process may use with these params; None for no limit of its own."""
        del params
        return None

    def timeout_s(self, params: Mapping[str, Any]) -> float | None:
        """Return the time limit of an attempt that params as written set, as a node's ``timeout`` does."""
        del params
        return None

    def effect_of(self, params: Mapping[str, Any]) -> Effect:
        """Return whether a step may run twice without harm, for params as written."""
        del params
        return self.effect

    def call(self, params: P, context: Context) -> NodeCall:
        """Return how the engine runs an attempt: ``run``, on the loop, by default."""
        return NodeCall(partial(_run, self, context), params)


async def _run(node_type: NodeType[P], context: Context, params: P) -> Output | Mapping[str, Any]:
    return await node_type.run(params, context)
