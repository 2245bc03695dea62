"""Takes system calls away from a program: those for memory that no limit counts, and unneeded ones."""

from __future__ import annotations

import ctypes
import os
import struct

_PR_SET_SECCOMP, _MODE_FILTER = 22, 2
_LOAD, _JUMP_IF_EQUAL, _JUMP_IF_AT_LEAST, _RETURN = 0x20, 0x15, 0x35, 0x06
_NUMBER_AT, _MACHINE_AT = 0, 4
_ALLOW, _REFUSE = 0x7FFF0000, 0x00050000 | 1  # with EPERM
_OTHER_ABI = 0x40000000  # x32

# Shared memory and queues that outlive a program, memory files, tracing, and doors into the kernel.
_REFUSED = {
    "x86_64": (
        0xC000003E,
        {
            "shmget": 29, "shmat": 30, "semget": 64, "msgget": 68, "ptrace": 101, "personality": 135,
            "pivot_root": 155, "mount": 165, "add_key": 248, "request_key": 249, "keyctl": 250, "unshare": 272,
            "perf_event_open": 298, "open_by_handle_at": 304, "setns": 308, "process_vm_readv": 310,
            "process_vm_writev": 311, "memfd_create": 319, "bpf": 321, "userfaultfd": 323, "io_uring_setup": 425,
            "open_tree": 428, "fsopen": 430, "memfd_secret": 447,
        },
    ),
    "aarch64": (
        0xC00000B7,
        {
            "mount": 40, "pivot_root": 41, "personality": 92, "unshare": 97, "ptrace": 117, "msgget": 186,
            "semget": 190, "shmget": 194, "shmat": 196, "add_key": 217, "request_key": 218, "keyctl": 219,
            "perf_event_open": 241, "open_by_handle_at": 265, "setns": 268, "process_vm_readv": 270,
            "process_vm_writev": 271, "memfd_create": 279, "bpf": 280, "userfaultfd": 282, "io_uring_setup": 425,
            "open_tree": 428, "fsopen": 430, "memfd_secret": 447,
        },
    ),
}  # fmt: skip


class _FilterProgram(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_char_p))


def refuse_system_calls() -> None:
    """Refuse them to this process and all it starts; nothing is refused except on x86_64 and aarch64."""
    known = _REFUSED.get(os.uname().machine)
    if known is None:
        return
    code = _filter(known[0], sorted(known[1].values()))
    program = _FilterProgram(len(code) // 8, code)
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_SECCOMP, _MODE_FILTER, ctypes.byref(program), 0, 0):
        raise OSError(ctypes.get_errno(), "system calls cannot be filtered")


def _filter(machine: int, numbers: list[int]) -> bytes:
    """Return a filter for the kernel: load, compare, and jump so many instructions further if equal, else if not."""
    count = len(numbers)
    code = [
        (_LOAD, 0, 0, _MACHINE_AT),
        (_JUMP_IF_EQUAL, 0, count + 3, machine),
        (_LOAD, 0, 0, _NUMBER_AT),
        (_JUMP_IF_AT_LEAST, count + 1, 0, _OTHER_ABI),
        *((_JUMP_IF_EQUAL, count - place, 0, number) for place, number in enumerate(numbers)),
        (_RETURN, 0, 0, _ALLOW),
        (_RETURN, 0, 0, _REFUSE),
    ]
    return b"".join(struct.pack("<HBBI", *each) for each in code)
