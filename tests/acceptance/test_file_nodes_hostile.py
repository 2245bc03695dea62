"""Hostile values as paths and contents of file nodes: nothing outside is read, written or gone, and exact bytes arrive."""

import hashlib
import json
from pathlib import Path

import pytest

import graphmill as gm
from support.hostile_values import MARKER, UNSENDABLE, VALUES

WRITTEN = {**VALUES, **UNSENDABLE}
CLIMBING = {
    "up": "..",
    "up and on": "../outside/secret",
    "up from within": "in/../../outside/secret",
    "hidden up": "./in/./../../../outside/secret",
    "many ups": "../" * 50 + "etc/passwd",
    "root": "/",
    "device": "/dev/null",
    "process": "/proc/self/environ",
    "journal": ".graphmill/runs.db",
    "journal in capitals": ".GRAPHMILL/RUNS.DB",
    "journal from within": "in/./.graphmill/runs.db",
    "link out": "door/secret",
    "link to the file": "window",
    "link to the journal": "desk/runs.db",
    "link in a circle": "circle",
    "dots": "...",
    "encoded": "%2e%2e%2foutside%2fsecret",
    "backslashes": "..\\..\\outside\\secret",
    "full width dots": "\uff0e\uff0e/outside/secret",
    "one dot leader": "\u2024\u2024/outside/secret",
    "home": "~/secret",
    "drive": "C:\\secret",
    "stream": "file:///etc/passwd",
    "trailing dot": "in/.",
    "long name": "n" * 300,
    "long path": "d/" * 3000 + "f",
    "nul behind a good name": "good.txt\0.png",
}
PATHS = {**WRITTEN, **CLIMBING}
SECRET = "a secret of the world outside"

KINDS = {
    "read": [("read-file", {"file_path": "P"})],
    "write": [("write-file", {"file_path": "P", "content": "mine"})],
    "append": [("write-file", {"file_path": "P", "content": "mine", "append": True})],
    "copy to": [("copy-file", {"source_path": "mine", "dest_path": "P", "overwrite": True})],
    "copy from": [("copy-file", {"source_path": "P", "dest_path": "taken", "overwrite": True})],
    "move to": [("move-file", {"source_path": "mine", "dest_path": "P", "overwrite": True})],
    "move from": [("move-file", {"source_path": "P", "dest_path": "taken", "overwrite": True})],
    "delete": [("delete-file", {"file_path": "P"})],
}


@pytest.fixture
def world(tmp_path):
    """A project, and around it what nobody may touch; links lead from one to the other."""
    project, outside = tmp_path / "project", tmp_path / "outside"
    for folder in (project / "in", project / ".graphmill", outside):
        folder.mkdir(parents=True)
    for path in (outside / "secret", tmp_path / "secret", project / ".graphmill" / "runs.db"):
        path.write_text(SECRET)
    for folder in (project, project / "in"):
        (folder / "door").symlink_to(outside)
        (folder / "window").symlink_to(outside / "secret")
        (folder / "circle").symlink_to("circle")
        (folder / "desk").symlink_to(project / ".graphmill")
    (project / "mine").write_text("mine")
    return tmp_path


def outside_of(world):
    """Tell all that is not the project's to change."""
    paths = [
        path
        for path in world.rglob("*")
        if "project" not in path.relative_to(world).parts or ".graphmill" in path.parts
    ]
    return {
        path: (path.lstat().st_mode, path.lstat().st_ino, path.is_file() and hashlib.sha256(path.read_bytes()).digest())
        for path in paths
    }


def load(world, kind, written):
    nodes = [
        {
            "id": f"n{number}",
            "type": name,
            "params": {key: written if value == "P" else value for key, value in params.items()},
        }
        for number, (name, params) in enumerate(KINDS[kind])
    ]
    path = world / "project" / "workflow.yaml"
    path.write_text(json.dumps({"inputs": {"v": {"required": True}}, "nodes": nodes}))
    return gm.load(path)


@pytest.mark.parametrize("written", ["${v}", "in/${v}", "in/x${v}", "in/${v}.txt", "in/${v}/f"])
@pytest.mark.parametrize("kind", KINDS)
def test_no_value_in_a_path_touches_what_is_outside(world, monkeypatch, kind, written):
    monkeypatch.chdir(world / "project")
    graph, before = load(world, kind, written), outside_of(world)
    items = [gm.Job(id=name, graph=graph, input={"v": value}) for name, value in PATHS.items()]
    results = list(gm.batch(graph, [job.input for job in items], policy=gm.Policy(concurrency=1)).results())
    assert len(results) == len(PATHS)
    assert outside_of(world) == before
    assert {result.error.kind for result in results if result.error} <= {"permanent"}
    assert SECRET not in json.dumps([result.output for result in results])
    assert [
        path for path in world.rglob("*") if path.is_file() and path.name == "taken" and SECRET in path.read_text()
    ] == []
    assert [
        path for path in world.rglob(MARKER) if path.parent == world / "project" and path.read_text() != "mine"
    ] == []


@pytest.mark.parametrize("name", PATHS)
def test_a_value_is_the_name_that_it_says_or_none(world, name):
    """A file that is made for a value has that very name, byte for byte, and is found by it again."""
    value, folder = PATHS[name], world / "project" / "in"
    result = gm.run(load(world, "write", "in/${v}"), {"v": value})
    if result.error is not None:
        assert result.error.kind == "permanent"
        assert len(result.error.message) < 2000
        return
    path = Path(f"{folder}/{value}")
    assert (path.read_text(), path.resolve().is_relative_to(folder)) == ("mine", True)
    assert gm.run(load(world, "read", "in/${v}"), {"v": value}).output["content"] == "mine"
    assert gm.run(load(world, "delete", "in/${v}"), {"v": value}).output["deleted"]
    assert not path.exists()


@pytest.mark.parametrize("append", [False, True])
def test_every_value_arrives_as_content_byte_for_byte(world, append):
    texts = {name: value for name, value in WRITTEN.items() if name not in ("lone surrogate", "escaped byte")}
    path = world / "project" / "workflow.yaml"
    params = {"file_path": "made/${n}", "content": "${v}", "append": append}
    nodes = [
        {"id": "w", "type": "write-file", "params": params},
        {"id": "c", "type": "copy-file", "params": {"source_path": "made/${n}", "dest_path": "copied/${n}"}},
        {"id": "m", "type": "move-file", "params": {"source_path": "copied/${n}", "dest_path": "moved/${n}"}},
        {"id": "r", "type": "read-file", "params": {"file_path": "moved/${n}"}},
    ]
    path.write_text(json.dumps({"inputs": {"n": {}, "v": {}}, "nodes": nodes}))
    results = gm.batch(
        gm.load(path), [{"n": number, "v": value} for number, value in enumerate(texts.values())]
    ).results()
    assert [result.output and result.output["content"] for result in results] == list(texts.values())
    for folder in ("made", "moved"):
        assert [(world / "project" / folder / str(number)).read_bytes() for number in range(len(texts))] == [
            value.encode() for value in texts.values()
        ]


def test_every_value_arrives_in_json_too(world):
    path = world / "project" / "workflow.yaml"
    params = {"file_path": "all.jsonl", "content": "${v}"}
    path.write_text(json.dumps({"inputs": {"v": {}}, "nodes": [{"id": "w", "type": "write-file", "params": params}]}))
    assert gm.run(gm.load(path), {"v": list(WRITTEN.values())}).status == "succeeded"
    lines = (world / "project" / "all.jsonl").read_text().splitlines()
    assert [json.loads(line) for line in lines] == list(WRITTEN.values())


@pytest.mark.parametrize("name", ["lone surrogate", "escaped byte"])
def test_text_that_is_no_unicode_is_a_permanent_failure_and_writes_nothing(world, name):
    path = world / "project" / "workflow.yaml"
    params = {"file_path": "new", "content": "${v}"}
    path.write_text(json.dumps({"inputs": {"v": {}}, "nodes": [{"id": "w", "type": "write-file", "params": params}]}))
    result = gm.run(gm.load(path), {"v": WRITTEN[name]})
    assert (result.error.kind, "half of a surrogate pair" in result.error.message) == ("permanent", True)
    assert not (world / "project" / "new").exists()
