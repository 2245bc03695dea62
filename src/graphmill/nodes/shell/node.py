"""The shell node: runs a command with /bin/sh. Values of templates are passed as data, never as part of the script."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterable, Mapping, Sequence
from errno import E2BIG
from pathlib import Path
from typing import Annotated, Any, ClassVar

import msgspec
from msgspec import Meta

from graphmill.core.errors import Permanent, Transient, message_of
from graphmill.graph.node_params import Filled, is_open, pieces_of
from graphmill.graph.node_type import Context, NodeType, ParamError, Site
from graphmill.graph.secrets import names_secret
from graphmill.graph.template import Placeholder, TemplateError, parse
from graphmill.nodes.shell.command import (
    VARIABLE,
    ShellValueError,
    argument,
    is_special_variable,
    is_variable_name,
    script_of,
    variable,
    with_arguments,
)
from graphmill.nodes.shell.process import ShellCommand, ShellProcess, run_command
from graphmill.nodes.text import param_bytes, param_text

_SHELL = "/bin/sh"
_MAX_BYTES = 128 * 1024  # Linux's limit for one argument or variable, including its name and the final zero byte
_MAX_PATH_SHOWN = 200
_MAX_HIDDEN_ARGS = 1000  # passed in variables, out of sight of other users; more would not fit into a script
_NOT_RUN = {126: "the command cannot be executed", 127: "the command was not found"}


class ShellParams(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What is run, and with which input."""

    command: Annotated[
        str,
        Meta(
            description="A command or script for `/bin/sh`. A template stands as a bare word or inside double quotes, "
            "and its value is passed as data. Anywhere else, use `args`, `env` or `stdin`. `$${NAME}` is the shell's "
            "own `${NAME}`."
        ),
    ]
    args: Annotated[list[Any], Meta(description='`"$1"`, `"$2"` and so on; objects and lists as JSON.')] = []
    stdin: Annotated[Any, Meta(description="Standard input: text, or an object or a list as JSON.")] = None
    cwd: Annotated[
        str | None,
        Meta(
            description="The folder to run in, relative to the workflow file's, which is the default. "
            "A template's value stays below the folder written before it."
        ),
    ] = None
    env: Annotated[dict[str, Any], Meta(description="More environment variables; `{env: NAME}` for a secret.")] = {}
    timeout: Annotated[
        Annotated[float, Meta(gt=0)] | None, Meta(description="Seconds per attempt; same as the node's own `timeout`.")
    ] = None
    ok_codes: Annotated[
        list[Annotated[int, Meta(ge=0, le=255)]],
        Meta(description="Exit codes that count as success.", extra_json_schema={"minItems": 1}),
    ] = msgspec.field(default_factory=lambda: [0])
    strip_newline: Annotated[bool, Meta(description="Remove newlines at the end of `stdout`, as `$(…)` does.")] = False


class ShellNode(NodeType[ShellParams]):
    """Runs a command in a session of its own; what is left in its process group is killed when it ends."""

    name = "shell"
    summary = "Runs a shell command. Values are passed as data."
    Params = ShellParams
    outputs: ClassVar[Mapping[str, str]] = {
        "stdout": "what the command wrote, as UTF-8; at most 1,000,000 bytes, with a note if it was cut",
        "stderr": "the same of standard error",
        "exit_code": "the command's exit code, one of `ok_codes`",
    }
    untemplated = frozenset({"timeout", "ok_codes"})
    in_pieces = frozenset({"command", "cwd"})
    redacts_outputs = True
    example = """\
- id: count
  type: shell
  params:
    command: grep -w -- ${word} "${folder}/notes.txt" | wc -l
- id: sort
  type: shell
  params: {command: 'jq "sort_by(.$1)"', args: [name], stdin: "${fetch.response}", env: {TOKEN: {env: API_TOKEN}}}
"""

    def check(self, params: Mapping[str, Any], site: Site) -> None:
        """Refuse a command in which a value might be parsed, secrets that others could see, and bad variable names."""
        del site
        _check_command(params["command"])
        args = params.get("args")
        for number, arg in enumerate(args if isinstance(args, list) else []):
            if isinstance(arg, Mapping) and names_secret(arg):
                raise ParamError(
                    "args cannot hold a secret: every user of the machine can see a command's arguments; use env or "
                    "stdin",
                    at=("args", number),
                )
        env = params.get("env", {})
        if isinstance(env, Mapping):
            _check_names(env)
        if params.get("ok_codes") == []:
            raise ParamError("ok_codes must not be empty", at=("ok_codes",))

    def timeout_s(self, params: Mapping[str, Any]) -> float | None:
        """Return the param of that name."""
        return params.get("timeout")

    async def run(self, params: ShellParams, context: Context) -> Mapping[str, Any]:
        """Run the command to its end."""
        process = await _run(_command_of(params, context.root))
        status = process.status or 0
        if status not in params.ok_codes:
            raise _failure(status, process)
        stdout = process.stdout.text()
        if params.strip_newline:
            stdout = stdout.rstrip("\n")
        return {"stdout": stdout, "stderr": process.stderr.text(), "exit_code": status}


def _check_command(command: Any) -> None:
    if not isinstance(command, str):
        raise ParamError("command must be text; pass a secret by env", at=("command",))
    if "\0" in command:
        raise ParamError("command must not contain a NUL character", at=("command",))
    if len(command.encode("utf-8", "replace")) >= _MAX_BYTES:
        raise ParamError("command must be shorter than 128 KiB; put the script into a file", at=("command",))
    try:
        parts = parse(command).parts
    except TemplateError:  # reported when all templates are checked
        return
    try:
        script_of(_texts_between(parts))
    except ShellValueError as error:
        templates = list(dict.fromkeys(str(part) for part in parts if isinstance(part, Placeholder)))
        which = templates[0]
        if len(templates) > 1:
            which = f"one of {', '.join(templates)}"
        remedy = 'pass the value by env (then use "$NAME"), args ("$1") or stdin'
        raise ParamError(f"command: {which} is not safe in this place: {error}; {remedy}", at=("command",)) from error


def _check_names(env: Mapping[Any, Any]) -> None:
    if names_secret(env):
        raise ParamError(
            "env must be a mapping of variables; write a secret under a name: env: {NAME: {env: NAME}}", at=("env",)
        )
    for name, value in env.items():
        if not is_variable_name(str(name)):
            raise ParamError(f"env: {name!r} is not a variable name; use ASCII letters, digits and _", at=("env", name))
        if name.startswith(VARIABLE):
            raise ParamError(f"env: names starting with {VARIABLE} are reserved for templates", at=("env", name))
        if is_special_variable(name) and is_open(value) and not (isinstance(value, Mapping) and names_secret(value)):
            raise ParamError(
                f"env: {name} has a meaning of its own to the shell, so it cannot hold a template; use another name",
                at=("env", name),
            )


def _texts_between(parts: Iterable[object]) -> tuple[str, ...]:
    """Return the texts before, between and after the templates, which are not text in ``parts``."""
    texts = [""]
    for part in parts:
        if isinstance(part, str):
            texts[-1] += part
        else:
            texts.append("")
    return tuple(texts)


def _command_of(params: ShellParams, root: Path | None) -> ShellCommand:
    pieces = pieces_of(params.command)
    script = script_of(_texts_between(pieces))
    environment = _environment(params, [piece for piece in pieces if isinstance(piece, Filled)])
    texts = [param_text(arg, f"args.{number}") for number, arg in enumerate(params.args)]
    is_hidden = len(texts) <= _MAX_HIDDEN_ARGS  # every user of the machine can see the arguments of a process
    name_bytes = 0
    if is_hidden:
        name_bytes = len(argument(len(texts))) + 1
    words = [_argument(text, f"args.{number}", name_bytes) for number, text in enumerate(texts)]
    if is_hidden:
        environment |= {argument(number).encode(): word for number, word in enumerate(words)}
        script, words = with_arguments(script, len(words)), []
    return ShellCommand(
        words=[_SHELL, "-c", "--", script.encode(), "sh", *words],
        environment=environment,
        folder=_folder(params.cwd, root),
        stdin=_stdin(params.stdin),
    )


def _environment(params: ShellParams, values: Sequence[Filled]) -> dict[bytes, bytes]:
    environment = dict(os.environb)
    for number, value in enumerate(values):
        name = variable(number)
        what = f"the value of template {number + 1} in command"
        environment[name.encode()] = _argument(value.text, what, len(name) + 1)
    for name, given in params.env.items():
        environment[name.encode()] = _argument(param_text(given, f"env.{name}"), f"env.{name}", len(name) + 1)
    return environment


def _argument(text: str, what: str, name_bytes: int) -> bytes:
    """Encode an argument or a variable's value."""
    data = param_bytes(text, what)
    if b"\0" in data:
        raise Permanent(f"{what} contains a NUL character, which arguments and variables cannot hold; pass it by stdin")
    if len(data) + name_bytes + 1 > _MAX_BYTES:
        raise Permanent(f"{what} has {len(data):,} bytes; arguments and variables hold less than 128 KiB; use stdin")
    return data


def _stdin(value: Any) -> bytes | None:
    if value is None:
        return None
    return param_bytes(param_text(value, "stdin"), "stdin")


def _folder(cwd: str | None, root: Path | None) -> str | None:
    if cwd is None:
        return _existing(root)
    if not cwd:
        raise Permanent("cwd is empty; leave it out for the folder of the workflow file")
    if b"\0" in param_bytes(cwd, "cwd"):
        raise Permanent("cwd must not contain a NUL character")
    folder, pieces = (root or Path()) / cwd, pieces_of(cwd)
    found = _existing(folder)
    if all(isinstance(piece, str) for piece in pieces):
        return found
    return _require_below(folder, root or Path(), pieces[0])


def _existing(folder: Path | None) -> str | None:
    if folder is None:
        return None
    if not os.path.isdir(folder):  # noqa: PTH112  Path.is_dir raises for a name that is too long
        raise Permanent(f"cwd: no folder {str(folder)[:_MAX_PATH_SHOWN]!r}")
    return str(folder)


def _require_below(folder: Path, root: Path, beginning: str | Filled) -> str:
    """Resolve a folder that a template named; it must be below what is written before the template."""
    limit = os.path.realpath(root)
    if isinstance(beginning, str):
        limit = os.path.realpath(root / "".join(beginning.rpartition("/")[:2]))
    real = os.path.realpath(folder)
    if os.path.commonpath([real, limit]) != limit:
        raise Permanent(
            f"cwd {str(folder)[:_MAX_PATH_SHOWN]!r}: a template's value may not lead out of the folder written before "
            "it, or out of the workflow's"
        )
    return real


async def _run(command: ShellCommand) -> ShellProcess:
    try:
        return await run_command(command)
    except OSError as error:
        if error.errno == E2BIG:
            raise Permanent("the arguments and variables are too large all together; pass some by stdin") from error
        if isinstance(error, FileNotFoundError | NotADirectoryError | PermissionError):
            raise
        raise Transient(f"the command could not be started: {message_of(error)}") from error


def _failure(status: int, process: ShellProcess) -> Exception:
    end = process.stderr.end()
    written = f": {end or '(nothing on standard error)'}"
    if status in _NOT_RUN:
        return Permanent(f"exit code {status} ({_NOT_RUN[status]}){written}")
    if status < 0:
        return Transient(f"killed by {_signal_name(-status)}{written}")
    if 128 < status < 160:
        return Transient(f"exit code {status} (killed by {_signal_name(status - 128)}){written}")
    return Transient(f"exit code {status}{written}")


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
