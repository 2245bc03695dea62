"""File nodes while somebody swaps a folder on their way, or the file itself, for a link that leads out."""

from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Thread

import pytest

from graphmill.core.errors import AttemptError
from graphmill.graph.node_params import pieced, read_params
from graphmill.graph.registry import find_node_type
from graphmill.nodes.files.route import route_of

PATH = "a/b/file"
STEPS = {
    "read": ("read-file", {"file_path": PATH}),
    "write": ("write-file", {"file_path": PATH, "content": "mine"}),
    "write with folders": ("write-file", {"file_path": f"{PATH}/x/y", "content": "mine"}),
    "append": ("write-file", {"file_path": PATH, "content": "mine", "append": True}),
    "copy to": ("copy-file", {"source_path": "mine", "dest_path": PATH, "overwrite": True}),
    "copy from": ("copy-file", {"source_path": PATH, "dest_path": "taken", "overwrite": True}),
    "move to": ("move-file", {"source_path": "mine", "dest_path": PATH, "overwrite": True}),
    "move from": ("move-file", {"source_path": PATH, "dest_path": "taken"}),
    "delete": ("delete-file", {"file_path": PATH}),
}
TIMES = 100


@pytest.fixture
def tree(tmp_path):
    for name in ("root/a/b", "outside/b"):
        (tmp_path / name).mkdir(parents=True)
    for name in ("outside/b/file", "outside/file"):
        (tmp_path / name).write_text("outside")
    return tmp_path


@contextmanager
def swapping(place, target):
    """Put a link in a name's place and take it away again, as fast as can be."""
    spare, third, is_over = place.with_name("spare"), place.with_name("third"), []
    spare.symlink_to(target)

    def swap():
        while not is_over:
            for old, new in [(place, third), (spare, place), (third, spare)]:
                with suppress(OSError):
                    old.rename(new)

    thread = Thread(target=swap)
    thread.start()
    try:
        yield
    finally:
        is_over.append(True)
        thread.join()


def act(root, kind, params):
    node_type = find_node_type(kind)
    routes = {name: route_of(name, pieced([[params[name]]]), root=root) for name in node_type.in_pieces}
    return node_type.act(read_params(node_type, params), routes)


def read_and_gone(path):
    """Take away what was made of a file; a link that was moved is no file."""
    text = path.read_text() if path.is_file() and not path.is_symlink() else ""
    path.unlink(missing_ok=True)
    return text


@pytest.mark.parametrize("place", ["a", "a/b", "a/b/file"])
@pytest.mark.parametrize("name", STEPS)
def test_no_node_is_led_out_by_a_link_that_is_put_in_its_way(tree, name, place):
    kind, params = STEPS[name]
    ends = set()
    (tree / "root" / PATH).write_text("inside")
    with swapping(tree / "root" / place, tree / "outside" / Path(place).relative_to("a")):
        for _ in range(TIMES):
            (tree / "root/mine").write_text("mine")
            try:
                ends.add(str(act(tree / "root", kind, params).get("content", "done")))
            except AttemptError as error:
                ends.add(type(error).__name__)
            assert "outside" not in read_and_gone(tree / "root/taken")
            with suppress(AttemptError):
                act(tree / "root", "write-file", {"file_path": PATH, "content": "inside"})
    assert "outside" not in ends
    outside = {
        path.relative_to(tree / "outside").as_posix(): path.is_file() and path.read_text()
        for path in (tree / "outside").rglob("*")
    }
    assert outside == {"b": False, "b/file": "outside", "file": "outside"}
