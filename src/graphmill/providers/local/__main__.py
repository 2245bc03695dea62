"""The process that runs one model: llama.cpp's server, which ends when the program that started it ends.

Started as a script, so that it loads nothing else of Graphmill. Standard input is a socket: its first line says what to
run, the answer is one line with the address or the error. It is closed when the other side ends, even by ``kill -9``.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import socket
import sys
import threading
from typing import Any

import xllamacpp

_PR_SET_PDEATHSIG = 1
_CONNECTIONS = 64  # each that is kept open holds a thread
_CACHE_MIB = 256  # of prompts that were read before; llama.cpp's own bound is 8 GiB


def main() -> None:
    """Load the model, say where it is served, and wait for the end of the other side."""
    parent = socket.socket(fileno=0)
    end_with_parent()
    wanted = json.loads(parent.makefile("rb").readline() or b"null")
    if wanted is None:
        return
    try:
        server = xllamacpp.Server(params_of(wanted))
    except RuntimeError as error:
        parent.sendall(json.dumps({"error": str(error)}).encode() + b"\n")
        return
    threading.Thread(target=exit_at_end, args=(parent,), daemon=True).start()
    parent.sendall(json.dumps({"address": f"{server.listening_address}/v1"}).encode() + b"\n")
    threading.Event().wait()


def end_with_parent() -> None:
    """On Linux, let the kernel end this process with its parent, also while a model is loading."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def exit_at_end(parent: socket.socket) -> None:
    """Exit when the other side has closed its end."""
    while parent.recv(4096):
        pass
    os._exit(0)


def params_of(wanted: dict[str, Any]) -> xllamacpp.CommonParams:
    """Return the parameters of llama.cpp: loopback with a key, a free port, several slots that share one context."""
    params = xllamacpp.CommonParams()
    params.model.path = wanted["path"]
    params.model_alias = {wanted["name"]}
    params.hostnames, params.port = ["127.0.0.1"], 0
    params.api_keys = [wanted["key"]]
    params.n_parallel, params.kv_unified = wanted["slots"], True
    params.n_ctx = wanted["context"]
    params.n_threads_http = _CONNECTIONS
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = wanted["threads"]
    params.cache_ram_mib = _CACHE_MIB
    params.ui = False
    params.verbosity = 1  # errors only
    return params


if __name__ == "__main__":
    main()
