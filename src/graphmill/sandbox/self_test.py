"""The self-test of a sandbox: a program that tries what no program may, and says ``closed`` if nothing of it works."""

SELF_TEST = r"""
import ctypes, os, resource, socket, threading

def opens(path, flags=os.O_WRONLY | os.O_CREAT):
    try:
        os.close(os.open(path, flags, 0o600))
    except OSError:
        return False
    return True

def connects(address):
    with socket.socket() as connection:
        connection.settimeout(1)
        try:
            connection.connect(address)
        except OSError:
            return False
        return True

libc = ctypes.CDLL(None, use_errno=True)
PARTS = os.path.dirname(os.path.realpath(os.__file__))
problems = [text for text, is_open in {
    "it has the variables of another environment": any("_NUM_THREADS" not in name for name in os.environ),
    "it sees other processes": os.getpid() > 1000 and os.getppid() > 1000,
    "it is root with rights": libc.prctl(23, 7, 0, 0, 0) == 1 and libc.prctl(23, 21, 0, 0, 0) == 1 and not os.setuid(0),
    "it can make user namespaces": libc.unshare(0x10000000) == 0,
    "it can mount": libc.mount(b"none", b"/tmp", b"tmpfs", 0, None) == 0,
    "it can trace its parent": libc.ptrace(16, os.getppid(), 0, 0) == 0,
    "it can write to /": opens("/self-test"),
    "it can write to /usr": opens("/usr/self-test"),
    "it can write to the interpreter": opens(PARTS + "/self-test"),
    "it sees /proc": opens("/proc/1/environ", os.O_RDONLY),
    "it sees /etc/passwd": opens("/etc/passwd", os.O_RDONLY),
    "it sees home folders": os.path.isdir("/home") and bool(os.listdir("/home")) and not PARTS.startswith("/home/"),
    "it has a network": len(socket.if_nameindex()) > 1 or connects(("192.0.2.1", 80)),
    "it has no limit of memory": resource.getrlimit(resource.RLIMIT_AS)[1] == resource.RLIM_INFINITY,
}.items() if is_open]
if not opens("/tmp/self-test"):
    problems.append("it has no /tmp")
threads = [threading.Thread(target=str) for _ in range(4)]
for each in threads:
    each.start()
if problems:
    raise SystemExit("; ".join(problems))
print("closed")
"""
