import io
import json
import os
import subprocess
import sys
import threading
from contextlib import contextmanager, redirect_stdout, suppress

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from graphmill.cli.terminal import MAX_QUEUED_BYTES, StderrPrinter, print_json, print_lines, wrap_lines
from support.odd_texts import json_values


@given(st.lists(st.text(st.characters()), max_size=3))
def test_lines_hold_nothing_that_a_terminal_would_obey(lines):
    printed = _printed(print_lines, lines)
    assert printed.count("\n") == max(1, len(lines))
    assert all(line.isprintable() for line in printed.split("\n"))


@given(json_values)
@example("\U000e0001\x7f\x9b\u202e")
def test_json_is_one_printable_line_that_reads_back_as_it_was(value):
    printed = _printed(print_json, value)
    assert printed.removesuffix("\n").isprintable()
    assert json.loads(printed) == value


def _printed(function, value):
    with redirect_stdout(io.StringIO()) as out:
        function(value)
    return out.getvalue()


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize(
    ("line", "wrapped"),
    [
        (
            "  a   permanent   it went wrong, as it often does",
            ["  a   permanent   it went wrong, as it", "                  often does"],
        ),
        ("  get   +0.5 s   " + "x" * 30, ["  get   +0.5 s   " + "x" * 23, " " * 17 + "x" * 7]),
        (
            "  error: it went wrong, as it often does indeed",
            ["  error: it went wrong, as it often does", "    indeed"],
        ),
    ],
)
def test_a_line_is_wrapped_under_its_last_column(monkeypatch, line, wrapped):
    monkeypatch.setenv("COLUMNS", "40")
    assert list(wrap_lines([line], Terminal())) == wrapped
    assert list(wrap_lines([line], io.StringIO())) == [line]


@contextmanager
def pipe(*, full=False):
    """A printer into a pipe, a text stream on it, and the pipe's reading end."""
    reader, writer = os.pipe()
    if full:
        os.set_blocking(writer, False)
        with suppress(BlockingIOError):
            while True:
                os.write(writer, b"." * 4096)
        os.set_blocking(writer, True)
    with os.fdopen(reader, "rb") as stream:
        printer = StderrPrinter(writer)
        yield printer, printer.open(), stream
        printer.settle()
        os.close(writer)


def test_a_line_is_written_when_it_was_printed():
    with pipe() as (printer, stderr, reader):
        print("first \ud800é", file=stderr, flush=True)
        assert os.read(reader.fileno(), 100) == b"first \\ud800\xc3\xa9\n"
        stderr.write("not a whole line")
        printer.settle()
        assert os.read(reader.fileno(), 100) == b"not a whole line"


def test_a_hung_terminal_blocks_nobody_and_its_queue_is_bounded():
    with pipe(full=True) as (printer, stderr, reader):
        for _ in range(3 * MAX_QUEUED_BYTES // 1024):
            print("x" * 1023, file=stderr, flush=True)
        seen = bytearray()

        def read():
            while not seen.endswith(b"at last\n"):
                seen.extend(os.read(reader.fileno(), 65536))

        thread = threading.Thread(target=read)
        thread.start()
        printer.settle()
        print("at last", file=stderr)
        thread.join(60)
        assert MAX_QUEUED_BYTES - 2048 <= seen.count(b"x") <= MAX_QUEUED_BYTES


def test_a_closed_pipe_is_no_error():
    reader, writer = os.pipe()
    os.close(reader)
    printer = StderrPrinter(writer)
    stderr = printer.open()
    for _ in range(10):
        print("anybody?", file=stderr, flush=True)
    printer.settle()
    os.close(writer)


def test_lines_of_many_threads_are_all_written():
    with pipe() as (_, stderr, reader):
        threads = [
            threading.Thread(target=lambda: [print("x" * 50, file=stderr, flush=True) for _ in range(100)])
            for _ in range(4)
        ]
        lines = []
        collector = threading.Thread(target=lambda: lines.extend(reader.readline() for _ in range(400)))
        for thread in [*threads, collector]:
            thread.start()
        for thread in [*threads, collector]:
            thread.join(60)
        assert sum(len(line) for line in lines) == 400 * 51


def test_a_forked_child_writes_too():
    script = """
import os, sys
from graphmill.cli.terminal import StderrPrinter
sys.stderr = StderrPrinter().open()
print("parent", file=sys.stderr, flush=True)
child = os.fork()
if not child:
    print("child", file=sys.stderr, flush=True)
    os._exit(0)
os.waitpid(child, 0)
"""
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", script], capture_output=True, timeout=60, check=True)
    assert done.stderr == b"parent\nchild\n"
