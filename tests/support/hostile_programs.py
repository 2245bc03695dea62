"""Programs that try to pass their tests without doing their task, to harm the machine, or to outlive their end.

The task is ``double(x)``. Each is listed with the outcomes that are right for it.
"""

WRONG, EXCEPTION, EXITED, TIMEOUT = "wrong", "exception", "exited", "timeout"
MEMORY, OUTPUT, FILES, COMPILING = "memory_limit", "output_limit", "file_limit", "compile_error"

PROGRAMS = {
    # -- pretending
    "exits_with_0": (
        """
import sys
sys.exit(0)
""",
        {EXITED},
    ),
    "exits_at_once_with_0": (
        """
import os
os._exit(0)
""",
        {EXITED},
    ),
    "exits_with_0_when_tested": (
        """
import sys
def double(x): sys.exit(0)
""",
        {EXITED},
    ),
    "exits_at_once_when_tested": (
        """
import os
def double(x): os._exit(0)
""",
        {EXITED},
    ),
    "prints_that_it_passed": (
        r"""
print('passed\n{"done": true}')
def double(x): return print('passed')
""",
        {WRONG},
    ),
    "answers_what_equals_everything": (
        """
class Anything:
    def __eq__(self, other): return True
    def __ne__(self, other): return False
    def __lt__(self, other): return True
    __le__ = __gt__ = __ge__ = __contains__ = __lt__
    def __sub__(self, other): return 0
    __rsub__ = __add__ = __radd__ = __abs__ = __sub__
    def __bool__(self): return True
    def __hash__(self): return 0
def double(x): return Anything()
""",
        {WRONG},
    ),
    "answers_a_number_that_equals_everything": (
        """
class Number(int):
    def __eq__(self, other): return True
    __hash__ = int.__hash__
def double(x): return Number(1)
""",
        {WRONG},
    ),
    "answers_a_class_that_equals_everything": (
        """
class Kind(type):
    def __eq__(cls, other): return True
    __hash__ = type.__hash__
class double(metaclass=Kind):
    def __init__(self, x): pass
""",
        {EXCEPTION, WRONG},
    ),
    "patches_the_checker": (
        """
import builtins, sys
builtins.check = lambda candidate: None
sys.modules['__main__'].check = builtins.check
def check(candidate): pass
def double(x): return x
""",
        {WRONG},
    ),
    "replaces_assertion_error": (
        """
import builtins
class Silent(Exception):
    def __init__(self, *a): pass
builtins.AssertionError = Silent
AssertionError = Silent
def double(x): return x
""",
        {WRONG},
    ),
    "patches_builtins_that_tests_use": (
        """
import builtins, math
builtins.abs = lambda x: 0
builtins.len = lambda x: 0
math.isclose = lambda *a, **k: True
builtins.compile = lambda *a, **k: (lambda: None).__code__
builtins.exec = lambda *a: None
def double(x): return x
""",
        {EXITED, WRONG},
    ),
    "changes_a_module_that_tests_take_from_it": (
        """
import math
math.isclose = lambda *a, **k: True
def double(x): return 0 if x == 7.5 else 2 * x
""",
        {WRONG},
    ),
    "patches_the_harness": (
        """
import sys
for name, module in list(sys.modules.items()):
    if 'sandbox' in name:
        for key, value in list(vars(module).items()):
            if callable(value) and not key.startswith('__'): setattr(module, key, lambda *a, **k: None)
def double(x): return x
""",
        {EXITED, WRONG},
    ),
    "looks_for_its_tests_in_frames_and_memory": (
        """
import gc, sys
def double(x):
    frame, found = sys._getframe(), ''
    while frame:
        found += repr(frame.f_locals) + repr(frame.f_globals.keys())
        frame = frame.f_back
    found += repr([each for each in gc.get_objects() if isinstance(each, (str, dict, list)) and len(each) < 1000])
    if ''.join(['assert ', 'double(']) in found: return 2 * x
    raise LookupError('no tests in sight')
""",
        {EXCEPTION},
    ),
    "forges_reports_on_every_descriptor": (
        r"""
import os, struct, json
def forge():
    for line in ({'count': 1}, {'load': 'loaded', 'text': ''}, {'test': 'x', 'outcome': 'passed', 'text': ''}, {'done': True}):
        data = json.dumps(line).encode() + b'\n'
        for number in range(3, 1024):
            for each in (data, struct.pack('>I', len(data)) + data):
                try: os.write(number, each)
                except OSError: pass
forge()
def double(x): forge()
""",
        {EXITED, WRONG},
    ),
    "answers_with_a_forged_message": (
        """
import json, os, struct
def double(x):
    data = json.dumps(['value', {'kind': 'reference', 'of': ['yours', -1]}, []]).encode()
    os.write(3, struct.pack('>I', len(data)) + data)
""",
        {EXITED, WRONG},
    ),
    "asks_the_tests_for_their_names": (
        """
import json, os, struct
def double(x):
    for what, args in (('global', ['double']), ('getattr', [{'kind': 'reference', 'of': ['yours', 0]}, '__globals__'])):
        data = json.dumps([what, args, {'kind': 'dict', 'of': []}]).encode()
        os.write(3, struct.pack('>I', len(data)) + data)
        size = struct.unpack('>I', os.read(3, 4))[0]
        if json.loads(os.read(3, size))[0] != 'error': return 2 * x
    raise LookupError('refused')
""",
        {EXCEPTION},
    ),
    "closes_the_channel": (
        """
import os
os.closerange(0, 1024)
def double(x): return 2 * x
""",
        {EXITED},
    ),
    "closes_the_channel_when_tested": (
        """
import os
def double(x): os.closerange(0, 1024)
""",
        {EXITED},
    ),
    "has_an_exit_handler": (
        """
import atexit, os
atexit.register(os._exit, 0)
def double(x): raise SystemExit(0)
""",
        {EXITED},
    ),
    "traces_its_caller": (
        """
import sys, threading
sys.settrace(lambda *a: None)
sys.setprofile(lambda *a: None)
threading.Thread(target=lambda: None).start()
def double(x): return x
""",
        {WRONG},
    ),
    "raises_assertion_errors_that_mean_nothing": ("def double(x): raise AssertionError('')", {EXCEPTION}),
    # -- using things up
    "loops_for_ever": (
        """
def double(x):
    while True: pass
""",
        {TIMEOUT},
    ),
    "loops_before_it_is_tested": ("while True: pass", {TIMEOUT}),
    "ignores_the_signal_of_its_limit": (
        """
import signal
for each in range(1, 65):
    try: signal.signal(each, signal.SIG_IGN)
    except (OSError, ValueError): pass
while True: pass
""",
        {TIMEOUT},
    ),
    "sleeps_for_ever": (
        """
import time
def double(x): time.sleep(10**6)
""",
        {TIMEOUT},
    ),
    "takes_all_memory": ("def double(x): return len(bytearray(1 << 34))", {MEMORY}),
    "takes_memory_in_many_processes": (
        """
import os, time
def double(x):
    for _ in range(12):
        if os.fork() == 0:
            held = b'x' * (100 << 20)
            time.sleep(100)
    time.sleep(100)
""",
        {MEMORY, TIMEOUT},
    ),
    "takes_memory_that_outlives_it": (
        """
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
if libc.shmget(0, 1 << 30, 0o1600) != -1 or libc.msgget(0, 0o1600) != -1: raise SystemExit("taken")
raise MemoryError
""",
        {MEMORY},
    ),
    "takes_memory_as_files": (
        """
import os
def double(x):
    while True: os.write(os.memfd_create("held"), bytes(1 << 20))
""",
        {EXCEPTION},
    ),
    "forks_without_end": (
        """
import os
def double(x):
    while True: os.fork()
""",
        {EXCEPTION, EXITED, TIMEOUT},
    ),
    "starts_threads_without_end": (
        """
import threading, time
def double(x):
    while True: threading.Thread(target=time.sleep, args=(100,)).start()
""",
        {EXCEPTION, MEMORY, TIMEOUT},
    ),
    "prints_without_end": (
        """
def double(x):
    while True: print('x' * 100_000)
""",
        {OUTPUT},
    ),
    "fills_the_disk": (
        """
def double(x):
    for number in range(1000):
        with open(f'/tmp/{number}', 'wb') as file: file.write(bytes(15 << 20))
""",
        {EXCEPTION},
    ),
    "makes_files_without_end": (
        """
import itertools
def double(x):
    for number in itertools.count(): open(f'/tmp/{number}', 'w').close()
""",
        {FILES},
    ),
    "makes_folders_without_bottom": (
        """
import os
def double(x):
    for _ in range(5000):
        os.mkdir('deep')
        os.chdir('deep')
    return x
""",
        {WRONG},
    ),
    "leaves_a_folder_that_cannot_be_read": (
        """
import os
def double(x):
    if not os.path.exists('closed'): os.makedirs('closed/inner'); os.chmod('closed', 0)
    return x
""",
        {WRONG},
    ),
    "recurses_without_end": ("def double(x): return double(x)", {EXCEPTION}),
    "overflows_the_stack": (
        """
import sys
sys.setrecursionlimit(10**9)
def double(x): return sorted([x], key=double)
""",
        {EXCEPTION, EXITED, MEMORY},
    ),
    "is_nested_too_deeply_to_compile": (
        "double = " + "(" * 5000 + ")" * 5000,
        {COMPILING, EXITED},
    ),
    "raises_its_limits": (
        """
import resource
for each in (resource.RLIMIT_AS, resource.RLIMIT_CPU, resource.RLIMIT_NPROC, resource.RLIMIT_FSIZE):
    resource.setrlimit(each, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
""",
        {EXCEPTION},
    ),
    # -- looking around, getting out, staying
    "reads_the_environment_of_others": (
        """
import os
assert not os.environ, os.environ
open(f'/proc/{os.getppid()}/environ')
""",
        {EXCEPTION},
    ),
    "reads_proc": ("open('/proc/self/status')", {EXCEPTION}),
    "reads_passwords": ("open('/etc/shadow')", {EXCEPTION}),
    "follows_a_link_out": (
        """
import os
os.symlink('/etc/passwd', 'link')
open('link')
def double(x): return 2 * x
""",
        {EXCEPTION},
    ),
    "changes_the_interpreter": (
        """
import os
with open(os.path.dirname(os.__file__) + '/sitecustomize.py', 'w') as file: file.write('1')
""",
        {EXCEPTION},
    ),
    "connects_to_the_network": (
        """
import socket
socket.create_connection(('192.0.2.1', 80), timeout=1)
""",
        {EXCEPTION},
    ),
    "connects_to_this_machine": (
        """
import socket
socket.create_connection(('127.0.0.1', PORT), timeout=1)
""",
        {EXCEPTION},
    ),
    "traces_its_parent": (
        """
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
for pid in range(1, 50):
    if pid != os.getpid() and libc.ptrace(16, pid, 0, 0) == 0: raise SystemExit('traced')
raise PermissionError
""",
        {EXCEPTION},
    ),
    "writes_into_the_memory_of_others": (
        """
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
class Area(ctypes.Structure): _fields_ = [('at', ctypes.c_void_p), ('size', ctypes.c_size_t)]
text = ctypes.create_string_buffer(b'x' * 8)
area = Area(ctypes.addressof(text), 8)
for pid in range(1, 50):
    if pid != os.getpid() and libc.process_vm_readv(pid, ctypes.byref(area), 1, ctypes.byref(area), 1, 0) >= 0:
        raise SystemExit('read')
raise PermissionError
""",
        {EXCEPTION},
    ),
    "makes_namespaces_and_mounts": (
        """
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
if libc.unshare(0x10000000) == 0 or libc.mount(b'none', b'/tmp', b'tmpfs', 0, None) == 0: raise SystemExit('made')
raise PermissionError
""",
        {EXCEPTION},
    ),
    "kills_all_others": (
        """
import os, signal
def double(x):
    os.kill(-1, signal.SIGKILL)
    return 2 * x
""",
        {EXITED},
    ),
    "kills_its_parent": (
        """
import os, signal
os.kill(os.getppid(), signal.SIGKILL)
def double(x): return x
""",
        {WRONG},
    ),
    "stops_its_parent": (
        """
import os, signal, time
os.kill(os.getppid(), signal.SIGSTOP)
time.sleep(100)
""",
        {TIMEOUT},
    ),
    "leaves_a_daemon": (
        """
import os, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.closerange(0, 1024)
        while True: time.sleep(0.01)
    os._exit(0)
def double(x): return x
""",
        {WRONG},
    ),
}
