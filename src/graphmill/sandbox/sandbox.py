"""What a sandbox is asked to run, what comes back, and the port for other kinds of sandbox."""

from __future__ import annotations

import socket
import subprocess
import sysconfig
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path, PurePosixPath
from typing import Protocol

from graphmill.core.errors import SandboxError, UsageError, describe_error
from graphmill.core.suggest import suggestion

GROUP = "graphmill.sandboxes"
INSIDE = Path(__file__).parent / "inside"
DEFAULT = "bubblewrap"
_MIB = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxLimits:
    """What a program may use. Wall time is generous, so that a busy machine ends no program that CPU time would not."""

    cpu_s: float = 10.0
    wall_s: float = 60.0
    memory_bytes: int = 512 * _MIB
    processes: int = 32
    open_files: int = 64
    file_bytes: int = 16 * _MIB
    files: int = 10_000
    output_bytes: int = 64 * 1024

    def __post_init__(self) -> None:
        if self.cpu_s < 1:
            raise UsageError(f"the limit of CPU time must be at least 1 s, got {self.cpu_s}")
        if self.wall_s <= 0:
            raise UsageError(f"the limit of wall time must be above 0, got {self.wall_s}")
        if self.memory_bytes < 64 * _MIB:
            raise UsageError(f"the limit of memory must be at least 64 MiB, got {self.memory_bytes} bytes")


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxProgram:
    """A program in Python, or a command, with its input.

    ``files`` are put into its folder before it starts; the files called ``wanted`` are read when it has ended. All
    names are relative to that folder.
    """

    code: str | None = None
    command: tuple[str, ...] = ()
    arguments: tuple[str, ...] = ()
    stdin: bytes = b""
    files: Mapping[str, bytes] = field(default_factory=dict)
    wanted: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if (self.code is None) == (not self.command):
            raise UsageError("a program for the sandbox has either code or a command")
        for name in (*self.files, *self.wanted):
            require_inner_name(name)


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxTests:
    """Tests of a program in Python: each ``assert``, function ``test_…`` and method of a TestCase is a test.

    They run in a process of their own and see of the program only what they name. ``prelude`` runs before them and sees
    nothing of it. ``entry_point`` is the function that is tested: what it returns counts only as data.
    """

    tests: tuple[str, ...]
    entry_point: str | None = None
    prelude: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxTest:
    """How one test ended: ``passed``, ``wrong``, ``exception``, ``memory_limit`` or ``exited``."""

    source: str
    outcome: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxOutcome:
    """What a program did. ``limit`` names the limit that ended it, such as ``timeout``; empty if none did.

    ``load`` and ``load_text`` say how far the program itself came: ``loaded``, ``compile_error``, ``exception``,
    ``exited`` or ``memory_limit``. Of a program without tests this is what it reports of itself. ``broken`` says what
    is wrong with the tests; they are complete only if ``all_tests_ran``.
    """

    status: int
    limit: str = ""
    cpu_s: float = 0.0
    wall_s: float = 0.0
    stdout: bytes = b""
    stderr: bytes = b""
    is_output_cut: bool = False
    files: Mapping[str, bytes] = field(default_factory=dict)
    load: str = ""
    load_text: str = ""
    broken: str = ""
    test_count: int = 0
    tests: tuple[SandboxTest, ...] = ()
    all_tests_ran: bool = False


class Sandbox(Protocol):
    """Starts the supervisor, ``inside/server.py``, where it can harm nothing.

    The supervisor's standard input is the socket; it needs Python 3.11 or newer on Linux, the folder ``inside`` as
    ``graphmill/sandbox/inside`` on its path, and folders ``/tmp`` and ``/dev/shm`` of its own. It ends when the socket
    is closed. It must be the first process of a process namespace of its own, since it kills all others.
    """

    def start(self, connection: socket.socket, stderr: int, packages: Sequence[Path]) -> subprocess.Popen[bytes]:
        """Start one that shows these folders of packages; SandboxError says what is missing and how to install it."""


def find_sandbox(name: str = DEFAULT) -> Sandbox:
    """Return the sandbox of this name."""
    entry = _entries().get(name)
    if entry is None:
        raise UsageError(
            f"no sandbox {name!r:.80}{suggestion(name, _entries())}; there are {', '.join(sorted(_entries()))}"
        )
    try:
        made: Sandbox = entry.load()()
    except SandboxError:
        raise
    except Exception as error:  # third-party code
        raise UsageError(f"cannot load the sandbox {name!r}: {describe_error(error)}") from error
    return made


def installed_packages() -> tuple[Path, ...]:
    """Return the folders of the packages that are installed beside Graphmill."""
    paths = (Path(sysconfig.get_path(name)) for name in ("purelib", "platlib"))
    return tuple(dict.fromkeys(path for path in paths if path.is_dir()))


def require_inner_name(name: str) -> None:
    """Refuse a name that leads out of the program's folder."""
    path = PurePosixPath(name)
    if not name or path.is_absolute() or ".." in path.parts or "\0" in name or str(path) == ".":
        raise UsageError(f"a file in the sandbox needs a relative name without '..', got {name!r:.80}")


@cache
def _entries() -> Mapping[str, EntryPoint]:
    return {entry.name: entry for entry in entry_points(group=GROUP)}
