"""What is asked of a sandbox, and how one is found."""

import pytest

import graphmill as gm
from graphmill.sandbox import sandbox
from graphmill.sandbox.sandbox import SandboxLimits, SandboxProgram, find_sandbox


@pytest.fixture
def podman(tmp_path, monkeypatch):
    """A package with a sandbox of its own."""
    info = tmp_path / "podman_sandbox-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: podman-sandbox\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[graphmill.sandboxes]\npodman = podman_sandbox:Podman\nbroken = podman_sandbox:Nothing\n"
    )
    module = "class Podman:\n    def start(self, connection, stderr, packages):\n        return 'podman'\n"
    (tmp_path / "podman_sandbox.py").write_text(module)
    monkeypatch.syspath_prepend(tmp_path)
    sandbox._entries.cache_clear()
    yield
    sandbox._entries.cache_clear()


def test_a_package_adds_a_sandbox_by_its_entry_point(podman):
    assert find_sandbox("podman").start(None, 2, ()) == "podman"
    with pytest.raises(gm.UsageError, match="cannot load the sandbox 'broken'"):
        find_sandbox("broken")
    with pytest.raises(gm.UsageError, match="did you mean 'podman'"):
        find_sandbox("podmann")


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: SandboxProgram(), "either code or a command"),
        (lambda: SandboxProgram(code="1", command=("ls",)), "either code or a command"),
        (lambda: SandboxProgram(code="1", files={"a/../../b": b""}), "relative name"),
        (lambda: SandboxProgram(code="1", wanted=("/etc/passwd",)), "relative name"),
        (lambda: SandboxLimits(cpu_s=0.5), "at least 1 s"),
        (lambda: SandboxLimits(wall_s=0), "above 0"),
        (lambda: SandboxLimits(memory_bytes=1 << 20), "64 MiB"),
    ],
)
def test_what_makes_no_sense_is_refused(make, said):
    with pytest.raises(gm.UsageError, match=said):
        make()
