"""Where a path may lead."""

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphmill.core.errors import Permanent
from graphmill.graph.node_params import join_pieces
from graphmill.nodes.files.paths import resolve_path

ROOT = Path("/the/root")


def resolve(*pieces, root=ROOT, **more):
    """Resolve a path; a list of one is what a template came to."""
    path = pieces[0] if len(pieces) == 1 and isinstance(pieces[0], str) else join_pieces(pieces)
    return str(resolve_path("file_path", path, root=root, **more).real)


@pytest.mark.parametrize(
    ("pieces", "real"),
    [
        (("a.txt",), "/the/root/a.txt"),
        (("./a//b.txt",), "/the/root/a/b.txt"),
        (("a/../b.txt",), "/the/root/b.txt"),
        (("/the/root/a.txt",), "/the/root/a.txt"),
        (("../a.txt",), "/the/a.txt"),
        (("/etc/no-hosts",), "/etc/no-hosts"),
        (("//etc/no-hosts",), "/etc/no-hosts"),
        (("out/", ["x"], ".txt"), "/the/root/out/x.txt"),
        ((["a/b"], "/c"), "/the/root/a/b/c"),
        ((["~/x"],), "/the/root/~/x"),
        (([3], ".txt"), "/the/root/3.txt"),
        ((["/the/root/x"],), "/the/root/x"),
        (("/data/", ["x"], ".txt"), "/data/x.txt"),
        (("../near/a-", ["x/y"]), "/the/near/a-x/y"),
        (("/the/root/in/", ["x"]), "/the/root/in/x"),
    ],
)
def test_a_path_is_relative_to_the_workflows_folder_unless_its_author_wrote_another(pieces, real):
    assert resolve(*pieces) == real


def test_the_home_folder_is_meant_by_an_author_only(monkeypatch):
    monkeypatch.setenv("HOME", "/the/home")
    assert resolve("~/x") == "/the/home/x"
    assert resolve("~/out/", ["x"]) == "/the/home/out/x"
    assert resolve(["~/x"]) == "/the/root/~/x"


@pytest.mark.parametrize(
    ("pieces", "why"),
    [
        (("out/", ["../x"]), "`..`"),
        (("out/", ["x/../y"]), "`..`"),
        (("out/", ["x"], "/../y"), "`..`"),
        (("out/.", ["."], "/y"), "`..`"),
        (("out/", ["."], ["./y"]), "`..`"),
        ((["../x"],), "`..`"),
        ((["/the/root/../../etc/passwd"],), "`..`"),
        ((["/etc/passwd"],), "an absolute path"),
        ((["/the/rootless/x"],), "an absolute path"),
        (([""], "/etc/passwd"), "is empty"),
        (("out/", ["/etc/passwd"]), "absolute path, but text precedes it"),
        (("out/", [""], ".json"), "is empty"),
        ((["a"], "/", ["/etc/passwd"]), "absolute path, but text precedes it"),
        (("out/", ["a\0b"]), "NUL"),
        (("a\0b",), "NUL"),
        (("out/", ["\ud800"]), "surrogate"),
        (("out/", ["x/"]), "this is a folder"),
        (("out/", ["."]), "this is a folder"),
        (("out/", [".."]), "this is a folder"),
        (([""],), "is empty"),
        (("",), "must not be empty"),
        (("out/", [None]), "got null"),
        (("out/", [["a"]]), "got a list"),
        (("out/", [{"a": 1}]), "got a mapping"),
        (("out/", [True]), "got true or false"),
        (("out/", [1.5]), "got a number with a fraction"),
        (([".graphmill/runs.db"],), "the journal's own folder"),
        ((".graphmill/runs.db",), "the journal's own folder"),
        (("a/", [".GraphMill"], "/x"), "the journal's own folder"),
        (("/elsewhere/.graphmill/x",), "the journal's own folder"),
        (("d/" * 3000 + "f",), "too long"),
    ],
)
def test_what_leads_elsewhere_or_nowhere_is_a_permanent_failure_that_names_the_param(pieces, why):
    with pytest.raises(Permanent, match=r"^file_path ") as caught:
        resolve(*pieces)
    assert why in str(caught.value)


def test_an_absolute_value_may_lead_to_where_the_author_allows_it():
    assert resolve(["/data/x/y"], allowed=["/data"]) == "/data/x/y"
    assert resolve(["/the/b/x"], allowed=["../a/../b"]) == "/the/b/x"
    with pytest.raises(Permanent, match="allow_paths"):
        resolve(["/database/x"], allowed=["/data"])


def test_a_long_path_is_shown_short_and_what_would_steer_a_terminal_is_escaped():
    with pytest.raises(Permanent) as caught:
        resolve(["\x1b[2J\u202e" + "x" * 10_000 + "\0"])
    assert len(str(caught.value)) < 400
    assert str(caught.value).isprintable()


_TEXT = st.text(st.sampled_from("./~a\0\n") | st.characters(), max_size=12)


@given(
    st.lists(
        st.one_of(_TEXT.map(lambda text: [text]), st.sampled_from(["/", "out/", ".", "-", "sub/x"])),
        min_size=1,
        max_size=5,
    )
)
def test_no_value_leads_out_of_the_root_whatever_it_is_and_wherever_it_stands(pieces):
    if pieces[0] == "/" or not any(isinstance(piece, list) for piece in pieces):
        return
    try:
        real = resolve(*pieces)
    except Permanent:
        return
    assert real.startswith(f"{ROOT}/")
    assert [name for name in real.split("/")[1:] if name in ("..", ".", "")] == []


@pytest.fixture
def tree(tmp_path):
    """A root with a file three folders down, and beside the root what must not be reached."""
    (tmp_path / "root/a/b").mkdir(parents=True)
    (tmp_path / "root/a/b/file").write_text("inside")
    (tmp_path / "outside/b").mkdir(parents=True)
    (tmp_path / "outside/b/file").write_text("outside")
    (tmp_path / "outside/file").write_text("outside")
    return tmp_path


def read(tree, *pieces, **more):
    return Path(resolve(*pieces, root=tree / "root", **more)).read_text()


@pytest.mark.parametrize("link", ["a", "a/b", "a/b/file"])
@pytest.mark.parametrize("is_absolute", [True, False])
def test_a_link_that_leads_out_is_refused_in_whatever_place_it_stands(tree, link, is_absolute):
    place, target = tree / "root" / link, tree / "outside" / Path(link).relative_to("a")
    place.rename(tree / "moved")
    place.symlink_to(target if is_absolute else os.path.relpath(target, place.parent))
    for pieces in [("a/b/file",), (["a/b/file"],), ("a/", ["b/file"])]:
        with pytest.raises(Permanent, match=r"a link leads out.*allow_paths"):
            read(tree, *pieces)
        assert read(tree, *pieces, allowed=["../outside"]) == "outside"
        assert read(tree, *pieces, allowed=[str(tree / "outside")]) == "outside"


@pytest.mark.parametrize("target", ["a/b", "./a/./b/", "a/../a/b", "../root/a/b", "{root}/a/b", "loop/../a/b"])
def test_a_link_that_stays_inside_is_followed(tree, target):
    (tree / "root/loop").mkdir()
    (tree / "root/link").symlink_to(target.format(root=tree / "root"))
    assert read(tree, ["link/file"]) == "inside"
    (tree / "root/last").symlink_to("link/file")
    assert read(tree, ["last"]) == "inside"
    assert resolve(["last"], root=tree / "root", follows_link=False) == str(tree / "root/last")


def test_the_root_itself_may_stand_behind_a_link(tree):
    (tree / "door").symlink_to(tree / "root")
    (tree / "root/link").symlink_to(tree / "root/a")
    (tree / "root/other").symlink_to(tree / "door/a")
    for name in ("link", "other"):
        assert Path(resolve([f"{name}/b/file"], root=tree / "door")).read_text() == "inside"


def test_a_path_outside_that_is_written_in_full_goes_by_its_links(tree):
    (tree / "outside/link").symlink_to("../root/a/b/file")
    assert read(tree, str(tree / "outside/link")) == "inside"
    assert read(tree, "../outside/link") == "inside"


def test_a_value_below_a_folder_outside_that_is_written_may_not_leave_it(tree):
    (tree / "outside/link").symlink_to("/etc/passwd")
    (tree / "outside/up").symlink_to("..")
    assert read(tree, "../outside/", ["b/file"]) == "outside"
    for value in ("link", "up/secret"):
        with pytest.raises(Permanent, match="leads out"):
            read(tree, "../outside/", [value])


@pytest.mark.parametrize("path", [".graphmill/x", "door/x", "deep/.graphmill/x", ".GRAPHMILL/x"])
def test_the_journals_folder_is_reached_by_no_way(tree, path):
    (tree / "root/.graphmill").mkdir()
    (tree / "root/.graphmill/x").write_text("journal")
    (tree / "root/door").symlink_to(".graphmill")
    (tree / "root/deep").symlink_to(".")
    with pytest.raises(Permanent, match="journal's own folder"):
        read(tree, [path])
