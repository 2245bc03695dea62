"""File nodes in workflow files: what they read, write, copy, move and delete, and how they fail."""

import base64
import json
import os
import resource
import signal
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

import graphmill as gm
from graphmill.graph.run import outcomes
from graphmill.graph.workflow import load_data
from support.command import Command, write_items


def node(kind, **params):
    """Write a workflow of one node."""
    return f"nodes: [{{id: it, type: {kind}, params: {json.dumps(params)}}}]"


def over(kind, **params):
    """Write a workflow of one node over the items of the input ``items``."""
    batch = {"items": "${items}", "parallel": True, "max_concurrent": 50}
    return json.dumps(
        {
            "inputs": {"items": {"required": True}},
            "nodes": [{"id": "it", "type": kind, "params": params, "batch": batch}],
        }
    )


def names_in(folder):
    return sorted(path.name for path in folder.iterdir())


def left_over(folder):
    return [path.name for path in folder.rglob(".graphmill-*")]


def test_what_is_written_is_read(flow):
    text = """
        nodes:
          - {id: w, type: write-file, params: {file_path: new/folder/a.txt, content: "é\\r\\nb\\n"}}
          - {id: r, type: read-file, params: {file_path: "${w.file_path}"}}
        outputs: {w: "${w}", r: "${r}"}
    """
    assert flow.output(text) == {
        "w": {"written": True, "size": 6, "file_path": "new/folder/a.txt"},
        "r": {"content": "é\r\nb\n", "content_is_binary": False, "size": 6, "file_path": "new/folder/a.txt"},
    }
    assert (flow.folder / "new/folder/a.txt").read_bytes() == b"\xc3\xa9\r\nb\n"
    assert left_over(flow.folder) == []


def test_bytes_go_from_file_to_file_as_base64(flow):
    data = bytes(range(256))
    (flow.folder / "a.bin").write_bytes(data)
    text = """
        nodes:
          - {id: r, type: read-file, params: {file_path: a.bin, encoding: binary}}
          - {id: w, type: write-file, params: {file_path: b.bin, content: "${r.content}", encoding: binary}}
          - {id: o, type: write-file, params: {file_path: c.bin, content: "${r.content}", content_is_binary: "${r.content_is_binary}"}}
        outputs: {r: "${r}"}
    """
    found = flow.output(text)["r"]
    assert (base64.b64decode(found["content"]), found["content_is_binary"], found["size"]) == (data, True, 256)
    assert (flow.folder / "b.bin").read_bytes() == (flow.folder / "c.bin").read_bytes() == data


def test_a_list_is_lines_where_the_path_says_so_and_json_elsewhere(flow):
    rows = [{"a": 1}, {"b": "é\n"}]
    text = """
        inputs: {rows: {type: array}}
        nodes:
          - {id: a, type: write-file, params: {file_path: a.jsonl, content: "${rows}"}}
          - {id: b, type: write-file, params: {file_path: b.json, content: {rows: "${rows}"}}}
          - {id: c, type: write-file, params: {file_path: c.txt, content: "${rows}", format: jsonl}}
    """
    flow.output(text, {"rows": rows})
    lines = (flow.folder / "a.jsonl").read_text().splitlines()
    assert [json.loads(line) for line in lines] == rows
    assert json.loads((flow.folder / "b.json").read_text()) == {"rows": rows}
    assert (flow.folder / "c.txt").read_text() == (flow.folder / "a.jsonl").read_text()


def test_a_file_in_the_place_is_replaced_with_its_permissions_kept(flow):
    path = flow.folder / "a"
    path.write_text("old and long")
    path.chmod(0o640)
    flow.output(node("write-file", file_path="a", content="new"))
    assert (path.read_text(), path.stat().st_mode & 0o777) == ("new", 0o640)
    flow.output(node("write-file", file_path="a", content="newer", mode="604"))
    assert (path.read_text(), path.stat().st_mode & 0o777) == ("newer", 0o604)


def test_a_new_file_has_the_permissions_that_are_named_or_usual(flow):
    flow.output(node("write-file", file_path="secret", content="x", mode="0600"))
    flow.output(node("write-file", file_path="log", content="x", mode="0600", append=True))
    flow.output(node("write-file", file_path="usual", content="x"))
    (flow.folder / "by hand").write_text("")
    assert [(flow.folder / name).stat().st_mode & 0o777 for name in ("secret", "log")] == [0o600] * 2
    assert (flow.folder / "usual").stat().st_mode == (flow.folder / "by hand").stat().st_mode


def test_a_link_is_written_through_and_stays_one(flow):
    (flow.folder / "real").write_text("old")
    (flow.folder / "link").symlink_to("real")
    flow.output(node("write-file", file_path="link", content="new"))
    flow.output(node("write-file", file_path="link", content="er", append=True))
    assert (flow.folder / "real").read_text() == "newer"
    assert (flow.folder / "link").is_symlink()


def test_what_is_appended_stands_behind_what_was_there_with_one_mark_at_the_beginning(flow):
    text = node("write-file", file_path="a", content="é\n", append=True, encoding="utf-8-sig")
    assert [flow.output(text)["size"] for _ in range(3)] == [6, 3, 3]
    assert (flow.folder / "a").read_bytes() == "é\né\né\n".encode("utf-8-sig")


def test_two_hundred_that_append_at_once_leave_whole_lines(flow):
    items = [f"{number:03}:" + "x" * (number * 997 % 100_000) for number in range(200)]
    flow.output(over("write-file", file_path="log", content="${item}\n", append=True), {"items": items})
    assert sorted((flow.folder / "log").read_text().splitlines()) == sorted(items)


def test_what_takes_many_calls_to_append_stays_in_one_piece_too(flow):
    items = [[letter * 150_000] * 6 for letter in "abcdefghijklmnopqrstuvwx"]
    flow.output(over("write-file", file_path="log.jsonl", content="${item}", append=True), {"items": items})
    lines = (flow.folder / "log.jsonl").read_text().splitlines()
    assert [[line] * 6 for line in lines[::6]] == [lines[start : start + 6] for start in range(0, len(lines), 6)]
    assert sorted(lines) == sorted(json.dumps(entry) for item in items for entry in item)


def test_of_many_that_replace_one_file_at_once_one_wins_whole(flow):
    items = [str(number % 10) * 50_000 for number in range(100)]
    flow.output(over("write-file", file_path="one", content="${item}"), {"items": items})
    assert (flow.folder / "one").read_text() in items
    assert left_over(flow.folder) == []


def test_a_copy_has_bytes_permissions_and_time(flow):
    source = flow.folder / "a"
    source.write_bytes(os.urandom(3_000_000))
    source.chmod(0o750)
    os.utime(source, (1, 2))
    output = flow.output(node("copy-file", source_path="a", dest_path="x/b"))
    copy = flow.folder / "x/b"
    assert output == {"copied": True, "size": 3_000_000, "source_path": "a", "dest_path": "x/b"}
    assert (copy.read_bytes(), copy.stat().st_mode, copy.stat().st_mtime) == (
        source.read_bytes(),
        source.stat().st_mode,
        2.0,
    )


@pytest.mark.parametrize("kind", ["copy-file", "move-file"])
def test_a_file_in_the_place_is_replaced_only_on_request(flow, kind):
    (flow.folder / "a").write_text("new")
    (flow.folder / "b").write_text("old")
    failure = flow.failure(node(kind, source_path="a", dest_path="b"))
    assert (failure.kind, "`overwrite: true`" in failure.message) == ("permanent", True)
    assert ((flow.folder / "a").read_text(), (flow.folder / "b").read_text()) == ("new", "old")
    flow.output(node(kind, source_path="a", dest_path="b", overwrite=True))
    assert (flow.folder / "b").read_text() == "new"
    assert (flow.folder / "a").exists() is (kind == "copy-file")
    assert left_over(flow.folder) == []


def test_a_copy_that_is_there_already_counts(flow):
    (flow.folder / "a").write_text("same")
    for _ in range(2):
        assert flow.output(node("copy-file", source_path="a", dest_path="b"))["copied"]
    assert flow.output(node("copy-file", source_path="a", dest_path="a", overwrite=True))["copied"]
    assert (flow.folder / "a").read_text() == "same"


def test_a_file_is_moved_and_never_lost_by_being_moved_to_itself(flow):
    (flow.folder / "a").write_text("x")
    assert flow.output(node("move-file", source_path="a", dest_path="n/b")) == {
        "moved": True,
        "source_path": "a",
        "dest_path": "n/b",
    }
    for overwrite in (False, True):
        flow.output(node("move-file", source_path="n/b", dest_path="n/../n/b", overwrite=overwrite))
        flow.output(node("move-file", source_path="n/b", dest_path="n/B", overwrite=overwrite))
        flow.output(node("move-file", source_path="n/B", dest_path="n/b", overwrite=overwrite))
    assert [path.name for path in (flow.folder / "n").iterdir()] == ["b"]
    assert not (flow.folder / "a").exists()


@pytest.mark.parametrize("overwrite", [False, True])
def test_a_move_that_was_killed_between_its_two_names_is_ended(flow, overwrite):
    (flow.folder / "a").write_text("x")
    os.link(flow.folder / "a", flow.folder / "b")
    flow.output(node("move-file", source_path="a", dest_path="b", overwrite=overwrite))
    assert (names_in(flow.folder), (flow.folder / "b").read_text()) == (["b", "workflow.yaml"], "x")


def test_a_move_that_finds_nothing_says_what_may_have_happened(flow):
    failure = flow.failure(node("move-file", source_path="a", dest_path="b"))
    assert (failure.kind, "may have moved it to 'b' already" in failure.message) == ("permanent", True)


def test_a_move_to_another_disk_copies_and_deletes(flow):
    shm = Path("/dev/shm")
    if not os.access(shm, os.W_OK) or shm.stat().st_dev == flow.folder.stat().st_dev:
        pytest.skip("needs a second file system")
    far = shm / f"graphmill-test-{os.getpid()}"
    (flow.folder / "a").write_text("x")
    try:
        flow.output(node("move-file", source_path="a", dest_path=str(far)))
        assert (far.read_text(), (flow.folder / "a").exists()) == ("x", False)
        (flow.folder / "a").write_text("y")
        assert flow.failure(node("move-file", source_path="a", dest_path=str(far))).kind == "permanent"
        flow.output(node("move-file", source_path="a", dest_path=str(far), overwrite=True))
        assert (far.read_text(), (flow.folder / "a").exists()) == ("y", False)
        (flow.folder / "link").symlink_to("a")
        assert (
            "a link cannot be moved" in flow.failure(node("move-file", source_path="link", dest_path=f"{far}2")).message
        )
    finally:
        far.unlink()


def test_a_file_is_deleted_and_one_that_is_gone_is_well_unless_it_is_missed(flow):
    (flow.folder / "a").write_text("x")
    text = node("delete-file", file_path="a")
    assert [flow.output(text)["deleted"] for _ in range(2)] == [True, False]
    assert flow.output(node("delete-file", file_path="no/such/a")) == {"deleted": False, "file_path": "no/such/a"}
    failure = flow.failure(node("delete-file", file_path="a", missing_ok=False))
    assert (failure.kind, "no such file" in failure.message) == ("permanent", True)


@pytest.mark.parametrize("kind", ["delete-file", "move-file"])
def test_a_link_is_deleted_and_moved_itself(flow, kind):
    (flow.folder / "real").write_text("x")
    (flow.folder / "link").symlink_to("real")
    paths = {"file_path": "link"} if kind == "delete-file" else {"source_path": "link", "dest_path": "door"}
    flow.output(node(kind, **paths))
    assert (flow.folder / "real").read_text() == "x"
    assert not (flow.folder / "link").is_symlink()
    assert (flow.folder / "door").is_symlink() is (kind == "move-file")


@pytest.mark.parametrize(
    ("kind", "params"),
    [
        ("read-file", {"file_path": "sub"}),
        ("write-file", {"file_path": "sub", "content": "x"}),
        ("write-file", {"file_path": "sub", "content": "x", "append": True}),
        ("copy-file", {"source_path": "sub", "dest_path": "x"}),
        ("copy-file", {"source_path": "workflow.yaml", "dest_path": "sub", "overwrite": True}),
        ("move-file", {"source_path": "sub", "dest_path": "x"}),
        ("move-file", {"source_path": "workflow.yaml", "dest_path": "sub", "overwrite": True}),
        ("delete-file", {"file_path": "sub"}),
    ],
)
def test_a_folder_is_no_file(flow, kind, params):
    (flow.folder / "sub").mkdir()
    failure = flow.failure(node(kind, **params))
    assert (failure.kind, "this is a folder" in failure.message) == ("permanent", True)
    assert names_in(flow.folder) == ["sub", "workflow.yaml"]


@pytest.mark.parametrize("params", [{}, {"append": True}])
def test_a_pipe_is_neither_written_nor_replaced(flow, params):
    os.mkfifo(flow.folder / "pipe")
    assert "not a regular file" in flow.failure(node("write-file", file_path="pipe", content="x", **params)).message
    assert "not a regular file" in flow.failure(node("delete-file", file_path="pipe")).message


def test_folders_are_not_made_where_that_is_not_wanted(flow):
    failure = flow.failure(node("write-file", file_path="new/a", content="x", create_folders=False))
    assert (failure.kind, "no such folder" in failure.message) == ("permanent", True)
    assert not (flow.folder / "new").exists()


def test_a_file_that_is_too_large_is_not_read(flow):
    with (flow.folder / "huge").open("wb") as file:
        file.truncate(10 * 2**40)  # it takes no room on the disk
    (flow.folder / "four").write_text("four")
    failure = flow.failure(node("read-file", file_path="huge"))
    assert (failure.kind, "more than 67,108,864 bytes; raise `max_bytes`" in failure.message) == ("permanent", True)
    assert flow.output(node("read-file", file_path="four", max_bytes=4))["content"] == "four"
    assert "more than 3 bytes" in flow.failure(node("read-file", file_path="four", max_bytes=3)).message


def test_bytes_that_are_no_text_are_a_permanent_failure_with_offset_and_remedy(flow):
    (flow.folder / "a").write_bytes(b"caf\xe9")
    failure = flow.failure(node("read-file", file_path="a"))
    assert failure.kind == "permanent"
    assert "byte 0xe9 at offset 3" in failure.message
    assert "`encoding: binary`" in failure.message
    assert flow.output(node("read-file", file_path="a", encoding="latin-1"))["content"] == "café"


@pytest.mark.parametrize(
    ("kind", "params", "problem"),
    [
        ("read-file", {"file_path": "a", "encoding": "utf9"}, "encoding: unknown encoding 'utf9'"),
        ("read-file", {"file_path": "a", "encoding": "rot13"}, "encoding: unknown encoding 'rot13'"),
        ("read-file", {"file_path": ""}, "file_path: a path must not be empty"),
        ("read-file", {"file_path": "a/"}, "file_path: this is a folder"),
        (
            "read-file",
            {"file_path": {"env": "HOME"}},
            "file_path must be text",
        ),
        ("read-file", {"file_path": ".graphmill/runs.db"}, "file_path: .graphmill is the journal's own folder"),
        ("read-file", {"file_path": "a", "allow_paths": ["b", ""]}, "allow_paths: a path must not be empty"),
        (
            "read-file",
            {"file_path": "a", "allow_paths": ["b/.graphmill"]},
            "allow_paths: .graphmill is the journal's own folder",
        ),
        ("read-file", {"file_path": "a", "max_bytes": 0}, "max_bytes: must be an integer >= 1"),
        ("read-file", {"file_path": "a", "path": "a"}, "unknown key 'path'"),
        ("write-file", {"file_path": "a"}, "'content' is missing"),
        (
            "write-file",
            {"file_path": "a", "content": "", "append": True, "encoding": "utf-16"},
            "to append, use utf-16-le",
        ),
        (
            "write-file",
            {"file_path": "a", "content": "", "mode": 420},
            "mode: must be text or null, got an integer",
        ),
        ("write-file", {"file_path": "a", "content": "", "mode": "4755"}, "mode: must be text matching regex"),
        ("write-file", {"file_path": "a", "content": "", "format": "jason"}, "did you mean 'json'"),
        ("write-file", {"file_path": "a", "content": "", "format": "json", "encoding": "binary"}, "leave one out"),
        ("copy-file", {"source_path": "a", "dest_path": "b/."}, "dest_path: this is a folder"),
        ("move-file", {"source_path": "a"}, "'dest_path' is missing"),
        ("delete-file", {"file_path": "a\0b"}, "file_path: a path must not contain a NUL"),
    ],
)
def test_what_can_not_be_meant_is_found_before_anything_runs(flow, kind, params, problem):
    assert problem in flow.problem(node(kind, **params))


def test_a_path_is_relative_to_its_own_workflow_file_also_in_a_child(flow):
    (flow.folder / "sub").mkdir()
    flow.write(node("write-file", file_path="here", content="x"), name="sub/child.yaml")
    flow.output("nodes: [{id: c, type: workflow, params: {workflow: sub/child.yaml}}]")
    assert (flow.folder / "sub/here").read_text() == "x"


def test_without_a_file_a_path_is_relative_to_the_current_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    graph = load_data({"nodes": [{"id": "w", "type": "write-file", "params": {"file_path": "here", "content": "x"}}]})
    assert gm.run(graph, {}).status == "succeeded"
    assert (tmp_path / "here").read_text() == "x"


def test_a_file_of_the_older_form_loads_and_runs(flow):
    (flow.folder / "in.txt").write_text("x")
    steps = [
        ("r", "read-file", {"file_path": "in.txt", "encoding": "utf-8"}),
        (
            "w",
            "write-file",
            {
                "file_path": "out.txt",
                "content": "${r.content}!",
                "append": False,
                "content_is_binary": "${r.content_is_binary}",
            },
        ),
        ("c", "copy-file", {"source_path": "out.txt", "dest_path": "copy.txt", "overwrite": True}),
        ("m", "move-file", {"source_path": "copy.txt", "dest_path": "moved.txt", "overwrite": False}),
        ("d", "delete-file", {"file_path": "in.txt"}),
    ]
    document = {
        "nodes": [{"id": name, "type": kind, "params": params} for name, kind, params in steps],
        "edges": [{"from": one, "to": two} for one, two in ("rw", "wc", "cm", "md")],
    }
    flow.output(json.dumps(document))
    assert names_in(flow.folder) == ["moved.txt", "out.txt", "workflow.yaml"]
    assert (flow.folder / "moved.txt").read_text() == "x!"


LARGE = """
    inputs: {items: {type: array, required: true}}
    nodes:
      - {id: each, type: python, params: {function: "acts:work", inputs: {n: "${item}"}},
         batch: {items: "${items}", error_handling: continue}}
      - {id: lines, type: write-file, params: {file_path: out.jsonl, content: "${each.results}"}}
      - {id: list, type: write-file, params: {file_path: out.json, content: "${each.outcomes}"}}
      - {id: more, type: write-file, params: {file_path: log.jsonl, content: "${each.errors}", append: true}}
    outputs: {size: "${lines.size}"}
"""


@pytest.fixture
def work(flow):
    @flow.act
    async def work(n):
        if n == 3:
            raise gm.Permanent("three")
        return f"<{n}>"


@pytest.mark.usefixtures("work")
def test_the_results_of_a_large_batch_are_written_as_they_are_read_and_the_same_as_small_ones(flow, store, monkeypatch):
    names = ("out.jsonl", "out.json", "log.jsonl")
    before = flow.output(LARGE, {"items": list(range(12))}, journal=store)
    small = [(flow.folder / name).read_bytes() for name in names]
    (flow.folder / "log.jsonl").unlink()
    monkeypatch.setattr(outcomes, "MAX_IN_MEMORY", 4)
    monkeypatch.setattr(outcomes, "MAX_LOADED_BYTES", 300)  # less than there is: it would fail, were it brought in
    assert flow.output(LARGE, {"items": list(range(12))}, journal=store) == before
    assert [(flow.folder / name).read_bytes() for name in names] == small
    assert len(small[0].splitlines()) == 11


@pytest.mark.usefixtures("work")
def test_a_large_batch_that_was_written_is_not_written_again_by_a_resumed_run(flow, store, monkeypatch):
    monkeypatch.setattr(outcomes, "MAX_IN_MEMORY", 4)
    text = LARGE.replace("outputs:", "  - {id: last, type: python, params: {function: 'acts:last'}}\n    outputs:")
    is_well = []

    @flow.act
    async def last():
        if not is_well:
            raise gm.Permanent("not yet")

    graph = flow.load(text)
    run = gm.batch(graph, [{"items": list(range(12))}], journal=store, run_id="r")
    assert run.statistics.failed == 1
    (flow.folder / "out.jsonl").unlink()
    is_well.append(True)
    (result,) = gm.retry("r", graph=graph, journal=store).results()
    assert result.error is None, result.error
    assert not (flow.folder / "out.jsonl").exists()


@contextmanager
def largest_file(size):
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, ignored)


def test_a_disk_that_takes_no_more_leaves_the_old_file_whole_and_nothing_beside_it(flow):
    (flow.folder / "a").write_text("old")
    (flow.folder / "source").write_bytes(bytes(500_000))
    graphs = [
        flow.load(node(kind, **params))
        for kind, params in [
            ("write-file", {"file_path": "a", "content": "x" * 500_000}),
            ("write-file", {"file_path": "a", "content": "x" * 500_000, "append": True}),
            ("copy-file", {"source_path": "source", "dest_path": "a", "overwrite": True}),
        ]
    ]
    with largest_file(100_000):
        results = [next(gm.batch(graph, [{}]).results()) for graph in graphs]
    assert [result.error.kind for result in results] == ["permanent"] * 3
    assert all("larger than the system allows" in result.error.message for result in results)
    assert (flow.folder / "a").read_text() == "old"
    assert left_over(flow.folder) == []


def test_a_full_disk_may_be_tried_again(flow, monkeypatch):
    calls = []

    def full(file, data):
        calls.append(len(data))
        raise OSError(28, "No space left on device")

    graph = flow.load(node("write-file", file_path="a", content="x"))
    with monkeypatch.context() as patch:
        patch.setattr("graphmill.nodes.files.operations._write", full)
        (result,) = gm.batch(graph, [{}], policy=gm.Policy(retry=gm.Retry(attempts=3, wait_s=0, cap_s=0))).results()
    assert (result.error.kind, result.attempts, calls) == ("transient", 3, [1, 1, 1])
    assert "file_path 'a': no space left" in result.error.message
    assert [path.name for path in flow.folder.iterdir()] == ["workflow.yaml"]


@contextmanager
def unprivileged(folder):
    """Go on as somebody who is not root, in a folder that is theirs."""
    if os.geteuid():
        yield
        return
    for path in (folder, *folder.rglob("*")):
        os.chown(path, 65534, 65534)
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


def test_a_folder_and_a_file_that_are_read_only_are_left_alone():
    with TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "locked").mkdir()
        for path in ("locked/a", "b"):
            (folder / path).write_text("x")
            (folder / path).chmod(0o444)
        (folder / "locked").chmod(0o500)
        texts = {
            path: node("write-file", file_path=path, content="y") for path in ("locked/a", "locked/new", "b", "free")
        }
        graphs = {path: write(folder, f"{number}.yaml", text) for number, (path, text) in enumerate(texts.items())}
        gm.run(graphs["free"], {})
        with unprivileged(folder):
            results = {path: gm.run(graph, {}) for path, graph in graphs.items()}
        assert {path: result.error and result.error.kind for path, result in results.items()} == {
            "locked/a": "permanent",
            "locked/new": "permanent",
            "b": "permanent",
            "free": None,
        }
        assert "permission denied" in results["locked/new"].error.message
        assert ((folder / "locked/a").read_text(), (folder / "b").read_text()) == ("x", "x")


def write(folder, name, text):
    (folder / name).write_text(text)
    return gm.load(folder / name)


OLD, NEW = "old\n" * 500_000, "new\n" * 500_000


def test_kill_9_while_a_file_is_replaced_leaves_the_old_or_the_new(tmp_path):
    params = {"file_path": "target", "content": "${text}"}
    inputs = {"n": {"required": True}, "text": {"default": NEW}}
    (tmp_path / "workflow.yaml").write_text(
        json.dumps({"inputs": inputs, "nodes": [{"id": "w", "type": "write-file", "params": params}]})
    )
    write_items(tmp_path, [{"n": number} for number in range(5000)])
    for _ in range(4):
        (tmp_path / "target").write_text(OLD)
        with Command(tmp_path, "batch", "workflow.yaml", "-s", "items.jsonl", "--no-journal", "-o", "out.jsonl") as run:
            run.until_file(".graphmill-????????????????.tmp")
            run.send(signal.SIGKILL)
            run.wait()
        assert (tmp_path / "target").read_text() in (OLD, NEW)
        for path in tmp_path.glob(".graphmill-*.tmp"):
            path.unlink()


def test_the_command_line_writes_and_resumes(tmp_path):
    (tmp_path / "workflow.yaml").write_text(
        node("write-file", file_path="out/${id}.txt", content="${id}").replace("nodes:", "inputs: {id: {}}\nnodes:", 1)
    )
    write_items(tmp_path, [{"id": f"i{number}"} for number in range(50)])
    with Command(tmp_path, "batch", "workflow.yaml", "-s", "items.jsonl", "-o", "out.jsonl") as run:
        assert run.wait() == 0, run.err
    assert sorted(path.read_text() for path in (tmp_path / "out").iterdir()) == sorted(
        f"i{number}" for number in range(50)
    )
