"""The shell node: a command for /bin/sh, in which every value is data."""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping, Sequence
from errno import E2BIG
from pathlib import Path
from typing import Annotated, Any, ClassVar

import msgspec
from msgspec import Meta

from graphmill.core.errors import Permanent, Transient, message_of
from graphmill.graph.node_params import Filled, is_open, pieces_of
from graphmill.graph.node_type import Context, NodeType, ParamError, Site
from graphmill.graph.secrets import names_secret
from graphmill.graph.template import Lookup, TemplateError, parse
from graphmill.nodes.shell.grammar import require_uncomputed
from graphmill.nodes.shell.lexer import is_name
from graphmill.nodes.shell.process import Invocation, Process, ended
from graphmill.nodes.shell.programs import is_ruling
from graphmill.nodes.shell.script import VARIABLE, argument, script_of, variable, with_arguments
from graphmill.nodes.shell.word import VALUE, RefusedError
from graphmill.nodes.text import param_bytes, param_text

_SHELL = "/bin/sh"
_MOST_BYTES = 128 * 1024  # of one argument, or one variable with its name, the zero byte at its end included
_MOST_TOLD = 200
_MOST_HIDDEN = 1000  # arguments that are given in variables: more would not fit into a script
_NOT_RUN = {126: "the command can not be executed", 127: "the command was not found"}


class ShellParams(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What is run, and what it is given."""

    command: Annotated[
        str,
        Meta(
            description="A command, or a script, for `/bin/sh`. The value of a template is data wherever it stands: one word outside of "
            "quotes, or a part of the quoted text. `$${NAME}` is the shell's own `${NAME}`. Where the shell would parse it, it is refused."
        ),
    ]
    args: Annotated[list[Any], Meta(description='Given as `"$1"`, `"$2"` and so on; objects and lists as JSON.')] = []
    stdin: Annotated[
        Any, Meta(description="What the command reads: text, or an object or a list, which is sent as JSON.")
    ] = None
    cwd: Annotated[
        str | None,
        Meta(
            description="The folder it runs in, seen from the workflow file's, which is the default. "
            "A template leads no further than below the folder that is written before it."
        ),
    ] = None
    env: Annotated[
        dict[str, Any],
        Meta(description="Variables beside those that Graphmill itself has; `{env: NAME}` for a secret."),
    ] = {}
    timeout: Annotated[
        Annotated[float, Meta(gt=0)] | None,
        Meta(description="Seconds per attempt; the node's own `timeout` says the same for any type."),
    ] = None
    ok_codes: Annotated[
        list[Annotated[int, Meta(ge=0, le=255)]],
        Meta(description="Exit codes that are no failure.", extra_json_schema={"minItems": 1}),
    ] = msgspec.field(default_factory=lambda: [0])
    strip_newline: Annotated[bool, Meta(description="Leave out the line ends behind `stdout`, as `$(…)` does.")] = False


class Shell(NodeType[ShellParams]):
    """Runs a command in a session of its own; what it leaves in its process group ends with it."""

    name = "shell"
    summary = "Runs a command, in which every value is data."
    Params = ShellParams
    outputs: ClassVar[Mapping[str, str]] = {
        "stdout": "what the command wrote, as UTF-8 and otherwise as it is; at most 1,000,000 bytes, with a mark where it was cut",
        "stderr": "the same of the standard error",
        "exit_code": "the command's exit code, one of `ok_codes`",
    }
    untemplated = frozenset({"timeout", "ok_codes"})
    in_pieces = frozenset({"command", "cwd"})
    redacts_outputs = True
    example = """\
- id: count
  type: shell
  params:
    command: grep -c -- ${word} "${folder}/notes.txt"
    ok_codes: [0, 1]
- id: sort
  type: shell
  params: {command: 'jq "sort_by(.$1)"', args: [name], stdin: "${fetch.response}", env: {TOKEN: {env: API_TOKEN}}}
"""

    def check(self, params: Mapping[str, Any], site: Site) -> None:
        """Refuse a command that would parse a value, secrets that others could see, and variables that are none."""
        del site
        _check_command(params["command"], params)
        for number, arg in enumerate(_listed(params.get("args"))):
            if isinstance(arg, Mapping) and names_secret(arg):
                said = "a command hands its arguments on, where every user of the machine can see them; give a secret by env or stdin"
                raise ParamError(said, at=("args", number))
        env = params.get("env", {})
        if isinstance(env, Mapping):
            _check_names(env)
        if params.get("ok_codes") == []:
            raise ParamError("ok_codes is empty: no exit code would do", at=("ok_codes",))

    def timeout_s(self, params: Mapping[str, Any]) -> float | None:
        """Give the param of that name."""
        return params.get("timeout")

    async def run(self, params: ShellParams, context: Context) -> Mapping[str, Any]:
        """Run the command to its end."""
        process = await _ended(_invocation(params, context.root))
        status = process.status or 0
        if status not in params.ok_codes:
            raise _failure(status, process)
        stdout = process.stdout.text()
        return {
            "stdout": stdout.rstrip("\n") if params.strip_newline else stdout,
            "stderr": process.stderr.text(),
            "exit_code": status,
        }


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _check_command(command: Any, params: Mapping[str, Any]) -> None:
    if not isinstance(command, str):
        raise ParamError("command is text; a secret is given by env", at=("command",))
    if "\0" in command:
        raise ParamError("a command can not hold a NUL", at=("command",))
    if len(command.encode("utf-8", "replace")) >= _MOST_BYTES:
        raise ParamError("the command has 128 KiB or more; put it into a file", at=("command",))
    try:
        parts = parse(command).parts
    except TemplateError:  # told by the pass of templates
        return
    written = _written([part if isinstance(part, str) else None for part in parts])
    _check_arithmetic(VALUE.join(written), params)
    try:
        script_of(written)
    except RefusedError as error:
        templates = [str(part) for part in parts if isinstance(part, Lookup)]
        which = templates[0] if len(set(templates)) == 1 else "one of " + ", ".join(dict.fromkeys(templates))
        remedy = 'give it by env (then "$NAME" is its value), by args ("$1") or by stdin'
        raise ParamError(f"{which} can not stand in this command: {error}; {remedy}", at=("command",)) from error


def _check_arithmetic(command: str, params: Mapping[str, Any]) -> None:
    """Refuse a command that computes with what args and env are filled with: some shells run what stands in such a variable."""
    env = params.get("env")
    names = [str(name) for name, value in env.items() if is_open(value)] if isinstance(env, Mapping) else []
    try:
        require_uncomputed(command, names, has_arguments=is_open(params.get("args")))
    except RefusedError as error:
        raise ParamError(f"a value of args or env can not be used so: {error}", at=("command",)) from error


def _check_names(env: Mapping[Any, Any]) -> None:
    if names_secret(env):
        raise ParamError(
            "env is a mapping of variables; a secret stands below the name of one: env: {NAME: {env: NAME}}",
            at=("env",),
        )
    for name, value in env.items():
        if not is_name(str(name)):
            raise ParamError(f"{name!r} is no name of a variable: letters of ASCII, digits and _", at=("env", name))
        if name.startswith(VARIABLE):
            raise ParamError(
                f"names that begin with {VARIABLE} are taken: values of templates have them", at=("env", name)
            )
        if is_ruling(name) and is_open(value) and not (isinstance(value, Mapping) and names_secret(value)):
            hint = "give the value another name, and use that in the command"
            raise ParamError(
                f"{name} decides what is run, or how words are read, so no template may stand in it; {hint}",
                at=("env", name),
            )


def _written(parts: list[str | None]) -> tuple[str, ...]:
    """Give the texts before, between and behind the templates, for which None stands."""
    texts = [""]
    for part in parts:
        if part is None:
            texts.append("")
        else:
            texts[-1] += part
    return tuple(texts)


def _invocation(params: ShellParams, root: Path | None) -> Invocation:
    pieces = pieces_of(params.command)
    script = script_of(_written([piece if isinstance(piece, str) else None for piece in pieces]))
    values = [piece for piece in pieces if isinstance(piece, Filled)]
    environment = _environment(params, values)
    texts = [param_text(arg, f"args.{number}") for number, arg in enumerate(params.args)]
    are_hidden = len(texts) <= _MOST_HIDDEN  # what stands in the words of a process every user can see
    room = len(argument(len(texts))) + 1 if are_hidden else 0
    words = [_argument(text, f"args.{number}", room) for number, text in enumerate(texts)]
    if are_hidden:
        environment |= {argument(number).encode(): word for number, word in enumerate(words)}
        script, words = with_arguments(script, len(words)), []
    return Invocation(
        words=[_SHELL, "-c", "--", script.encode(), "sh", *words],
        environment=environment,
        folder=_folder(params.cwd, root),
        stdin=_input(params.stdin),
    )


def _environment(params: ShellParams, values: Sequence[Filled]) -> dict[bytes, bytes]:
    environment = dict(os.environb)
    for number, value in enumerate(values):
        name = variable(number)
        environment[name.encode()] = _argument(
            value.text, f"the value of template {number + 1} in command", len(name) + 1
        )
    for name, given in params.env.items():
        environment[name.encode()] = _argument(param_text(given, f"env.{name}"), f"env.{name}", len(name) + 1)
    return environment


def _argument(text: str, what: str, more: int = 0) -> bytes:
    """Give a text as a process can be given it."""
    data = param_bytes(text, what)
    if b"\0" in data:
        raise Permanent(f"{what} holds a NUL, which no argument and no variable can; give it by stdin")
    if len(data) + more + 1 > _MOST_BYTES:
        raise Permanent(
            f"{what} has {len(data):,} bytes, and an argument or a variable can not have 128 KiB; give it by stdin"
        )
    return data


def _input(value: Any) -> bytes | None:
    return None if value is None else param_bytes(param_text(value, "stdin"), "stdin")


def _folder(cwd: str | None, root: Path | None) -> str | None:
    if cwd is not None:
        _require_path(cwd)
    folder = root if cwd is None else (root or Path()) / cwd
    if folder is not None and not os.path.isdir(folder):  # noqa: PTH112  Path.is_dir raises what this takes for a no
        raise Permanent(f"cwd: there is no folder {str(folder)[:_MOST_TOLD]!r}")
    if folder is None or cwd is None or all(isinstance(piece, str) for piece in pieces_of(cwd)):
        return None if folder is None else str(folder)
    return _below(folder, root or Path(), pieces_of(cwd)[0])


def _below(folder: Path, root: Path, beginning: str | Filled) -> str:
    """Give a folder that a template has named, without links; it lies below what is written before the template, or it is refused."""
    written = beginning.rpartition("/")[0:2] if isinstance(beginning, str) else ("",)
    real, ground = os.path.realpath(folder), os.path.realpath(root / "".join(written))
    if os.path.commonpath([real, ground]) != ground:
        said = "a template's value leads out of the folder that is written before it, or out of the workflow's; write the folder itself"
        raise Permanent(f"cwd {str(folder)[:_MOST_TOLD]!r}: {said}")
    return real


def _require_path(cwd: str) -> None:
    if not cwd:
        raise Permanent("cwd is empty; leave it out for the folder of the workflow file")
    if b"\0" in param_bytes(cwd, "cwd"):
        raise Permanent("cwd holds a NUL, which no path can")


async def _ended(invocation: Invocation) -> Process:
    try:
        return await ended(invocation)
    except OSError as error:
        if error.errno == E2BIG:
            raise Permanent(
                "all values together are too large for a command's arguments and variables; give them by stdin"
            ) from error
        if isinstance(error, FileNotFoundError | NotADirectoryError | PermissionError):
            raise
        raise Transient(f"the command could not be started: {message_of(error)}") from error


def _failure(status: int, process: Process) -> Exception:
    said = process.stderr.end()
    told = f": {said}" if said else ", and wrote nothing to its standard error"
    if status in _NOT_RUN:
        return Permanent(f"exit code {status} ({_NOT_RUN[status]}){told}")
    if status < 0:
        return Transient(f"killed by {_signal_name(-status)}{told}")
    caught = f" (of something killed by {_signal_name(status - 128)})" if 128 < status < 160 else ""
    return Transient(f"exit code {status}{caught}{told}")


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
