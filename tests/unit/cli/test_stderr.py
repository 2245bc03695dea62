import os
import subprocess
import sys
import threading
from contextlib import contextmanager, suppress

from graphmill.cli.stderr import MOST_BYTES, Stderr


@contextmanager
def pipe(*, full=False):
    """A stream into a pipe, and the pipe's reading end."""
    reader, writer = os.pipe()
    if full:
        os.set_blocking(writer, False)
        with suppress(BlockingIOError):
            while True:
                os.write(writer, b"." * 4096)
        os.set_blocking(writer, True)
    with os.fdopen(reader, "rb") as stream:
        yield Stderr(writer), stream
        os.close(writer)


def test_a_line_is_out_when_it_has_been_printed():
    with pipe() as (stderr, reader):
        print("first", file=stderr)
        assert os.read(reader.fileno(), 100) == b"first\n"
        stderr.write("no line yet")
        stderr.settle()
        assert os.read(reader.fileno(), 100) == b"no line yet"


def test_text_that_can_not_be_encoded_is_written_all_the_same():
    with pipe() as (stderr, reader):
        print("\ud800é", file=stderr)
        assert os.read(reader.fileno(), 100) == b"\\ud800\xc3\xa9\n"


def test_what_nobody_reads_holds_nobody_up_and_is_kept_up_to_a_bound():
    with pipe(full=True) as (stderr, reader):
        for _ in range(3 * MOST_BYTES // 1024):
            print("x" * 1023, file=stderr)
        seen = bytearray()

        def read():
            while not seen.endswith(b"at last\n"):
                seen.extend(os.read(reader.fileno(), 65536))

        thread = threading.Thread(target=read)
        thread.start()
        stderr.settle()
        print("at last", file=stderr)
        thread.join(60)
        assert MOST_BYTES - 2048 <= seen.count(b"x") <= MOST_BYTES


def test_a_reader_that_has_gone_is_no_error():
    reader, writer = os.pipe()
    os.close(reader)
    stderr = Stderr(writer)
    for _ in range(10):
        print("anybody?", file=stderr)
    stderr.settle()
    os.close(writer)


def test_nothing_is_lost_that_many_threads_write():
    with pipe() as (stderr, reader):
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
from graphmill.cli.stderr import Stderr
sys.stderr = Stderr()
print("parent", file=sys.stderr)
child = os.fork()
if not child:
    print("child", file=sys.stderr)
    sys.stderr.settle()
    os._exit(0)
os.waitpid(child, 0)
"""
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", script], capture_output=True, timeout=60, check=True)
    assert done.stderr == b"parent\nchild\n"
