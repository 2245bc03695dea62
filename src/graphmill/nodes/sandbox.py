"""The sandbox node: runs a program that a model wrote, or a command on its files, where it can harm nothing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

import msgspec
from msgspec import Meta

from graphmill.core.errors import Permanent, SandboxError, Unavailable, UsageError, message_of
from graphmill.graph.node_params import is_open
from graphmill.graph.node_type import Context, NodeType, ParamError, Site
from graphmill.graph.template import Placeholder, TemplateError, parse
from graphmill.nodes.text import param_bytes, param_text
from graphmill.sandbox.extract import extract_program
from graphmill.sandbox.pool import SandboxPool
from graphmill.sandbox.sandbox import (
    DEFAULT,
    SandboxLimits,
    SandboxOutcome,
    SandboxProgram,
    find_sandbox,
    require_inner_name,
)

_CODE_FOLLOWS = ("-c", "-e", "--eval", "-m", "eval")


class SandboxParams(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A program or a command, what it gets, and what it may use."""

    code: Annotated[
        str | None,
        Meta(
            description="A program in Python: one template, such as `${solve.response}`, of which the last code block "
            "is taken, or text without a template. Pass values by `args`, `stdin` or `files`."
        ),
    ] = None
    command: Annotated[
        list[str] | None,
        Meta(
            description="A command and its arguments, run without a shell: a template is one argument or a part of it."
        ),
    ] = None
    args: Annotated[list[Any], Meta(description="More arguments, `sys.argv[1:]`; objects and lists as JSON.")] = []
    stdin: Annotated[Any, Meta(description="Standard input: text, or an object or a list as JSON.")] = None
    files: Annotated[
        dict[str, Any],
        Meta(description="Files in the program's folder, by name: text, or an object or a list as JSON."),
    ] = {}
    outputs: Annotated[list[str], Meta(description="Names of files to return when it has ended.")] = []
    cpu_s: Annotated[float, Meta(ge=1, description="Seconds of CPU time.")] = 10.0
    wall_s: Annotated[float, Meta(gt=0, description="Seconds in all.")] = 60.0
    memory_mb: Annotated[int, Meta(ge=64, description="Memory in MiB.")] = 512


class SandboxNode(NodeType[SandboxParams]):
    """Runs in one of as many warm sandboxes as the machine has cores; a failing program is an output, not a failure."""

    name = "sandbox"
    summary = "Runs a program of a model, or a command on its files, in a sandbox."
    Params = SandboxParams
    outputs: ClassVar[Mapping[str, str]] = {
        "stdout": "what the program wrote, as UTF-8; at most 65,536 bytes",
        "stderr": "the same of standard error",
        "exit_code": "its exit code; negative if a signal ended it",
        "outcome": "`success`, `compile_error`, `exception`, `failed` (another exit code than 0), `timeout`, "
        "`memory_limit`, `output_limit` or `file_limit`",
        "files": "the content of `outputs` by name, as UTF-8; without those that it did not write",
    }
    untemplated = frozenset({"outputs", "cpu_s", "wall_s", "memory_mb"})
    example = """\
- id: run
  type: sandbox
  params: {code: "${solve.response}", files: {data.csv: "${table}"}, outputs: [result.json]}
- id: count
  type: sandbox
  params: {command: [grep, -c, "${run.stdout}", data.csv], files: {data.csv: "${table}"}}
"""

    def check(self, params: Mapping[str, Any], site: Site) -> None:
        """Refuse values in the middle of code, and names outside of the program's folder."""
        del site
        code, command = params.get("code"), params.get("command")
        if (code is None) == (command is None):
            raise ParamError("give either code or command")
        if isinstance(code, str):
            _check_code(code)
        if isinstance(command, list):
            _check_command(command)
        for field in ("files", "outputs"):
            for name in params.get(field) or ():
                try:
                    require_inner_name(str(name))
                except UsageError as error:
                    raise ParamError(str(error), at=(field, name) if field == "files" else (field,)) from error

    async def run(self, params: SandboxParams, context: Context) -> Mapping[str, Any]:
        """Run it to its end."""
        limits = SandboxLimits(cpu_s=params.cpu_s, wall_s=params.wall_s, memory_bytes=params.memory_mb << 20)
        try:
            pool = context.shared(SandboxPool, lambda: SandboxPool(find_sandbox(DEFAULT)))
            outcome = await pool.run(_program(params), limits=limits)
        except SandboxError as error:
            raise Unavailable(str(error)) from error
        return {
            "stdout": outcome.stdout.decode("utf-8", "replace"),
            "stderr": outcome.stderr.decode("utf-8", "replace"),
            "exit_code": outcome.status,
            "outcome": _outcome_of(outcome),
            "files": {name: data.decode("utf-8", "replace") for name, data in outcome.files.items()},
        }


def _check_code(code: str) -> None:
    try:
        parts = parse(code).parts
    except TemplateError:  # reported when all templates are checked
        return
    if len(parts) > 1 and any(isinstance(part, Placeholder) for part in parts):
        raise ParamError(
            "code is one template or has none: a value in the middle of it would be run; pass it by args, stdin or "
            "files",
            at=("code",),
        )


def _check_command(command: list[Any]) -> None:
    if not command:
        raise ParamError("command must not be empty", at=("command",))
    for number, word in enumerate(command):
        if number and command[number - 1] in _CODE_FOLLOWS and is_open(word):
            raise ParamError(
                f"a template after {command[number - 1]} would be run as code; pass the value as an argument after it, "
                "or by stdin",
                at=("command", number),
            )


def _program(params: SandboxParams) -> SandboxProgram:
    args = tuple(param_text(arg, f"args.{number}") for number, arg in enumerate(params.args))
    for number, word in enumerate((*(params.command or ()), *args)):
        if "\0" in word:
            raise Permanent(f"argument {number} contains a NUL character; pass it by stdin or files")
    stdin = b"" if params.stdin is None else param_bytes(param_text(params.stdin, "stdin"), "stdin")
    files = {
        name: param_bytes(param_text(value, f"files.{name}"), f"files.{name}") for name, value in params.files.items()
    }
    try:
        return SandboxProgram(
            code=None if params.code is None else extract_program(params.code),
            command=() if params.command is None else (*params.command, *args),
            arguments=args,
            stdin=stdin,
            files=files,
            wanted=tuple(params.outputs),
        )
    except UsageError as error:
        raise Permanent(message_of(error)) from error


def _outcome_of(outcome: SandboxOutcome) -> str:
    if outcome.limit:
        return outcome.limit
    if outcome.status == 0:
        return "success"
    return outcome.load if outcome.load in ("compile_error", "exception", "memory_limit") else "failed"
