"""The way to a file, through folders that others change meanwhile."""

import os
from contextlib import suppress
from pathlib import Path
from threading import Thread

import pytest

from graphmill.core.errors import AttemptError, Permanent
from graphmill.graph.node_params import pieced
from graphmill.nodes.files import spot as spots
from graphmill.nodes.files.route import route_of
from graphmill.nodes.files.spot import spot_of


@pytest.fixture
def tree(tmp_path):
    """A root with a file three folders down, and beside the root what must not be reached."""
    (tmp_path / "root/a/b").mkdir(parents=True)
    (tmp_path / "root/a/b/file").write_text("inside")
    (tmp_path / "outside/b").mkdir(parents=True)
    (tmp_path / "outside/b/file").write_text("outside")
    (tmp_path / "outside/file").write_text("outside")
    return tmp_path


def read(tree, *pieces, allowed=(), **options):
    route = route_of(
        "file_path",
        pieces[0] if len(pieces) == 1 and isinstance(pieces[0], str) else pieced(pieces),
        root=tree / "root",
        allowed=allowed,
    )
    with spot_of(route, **options) as spot, spot.opened(os.O_RDONLY) as file:
        return os.read(file, 100).decode()


def open_files():
    return len(list(Path("/dev/fd").iterdir()))


def test_a_file_is_found_folder_by_folder_and_nothing_stays_open(tree):
    before = open_files()
    assert read(tree, ["a/b/file"]) == "inside"
    with pytest.raises(Permanent):
        read(tree, ["a/c/file"])
    assert open_files() == before


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


def test_the_root_itself_may_stand_behind_a_link(tree):
    (tree / "door").symlink_to(tree / "root")
    (tree / "root/link").symlink_to(tree / "root/a")
    (tree / "root/other").symlink_to(tree / "door/a")
    for name in ("link", "other"):
        with spot_of(route_of("file_path", f"{name}/b/file", root=tree / "door")) as spot:
            assert spot.file() is not None


def test_a_path_outside_that_is_written_in_full_goes_by_its_links(tree):
    (tree / "outside/link").symlink_to("../root/a/b/file")
    assert read(tree, str(tree / "outside/link")) == "inside"
    assert read(tree, "../outside/link") == "inside"
    assert read(tree, "../../" + tree.name + "/outside/link") == "inside"


def test_a_value_below_a_folder_outside_that_is_written_may_not_leave_it(tree):
    (tree / "outside/link").symlink_to("/etc/passwd")
    (tree / "outside/up").symlink_to("..")
    assert read(tree, "../outside/", ["b/file"]) == "outside"
    for value in ("link", "up/outside/file/", "up/secret"):
        with pytest.raises(Permanent):
            read(tree, "../outside/", [value])


def test_links_in_a_circle_are_refused(tree):
    (tree / "root/one").symlink_to("two")
    (tree / "root/two").symlink_to("one")
    for path in ("one", "one/x"):
        with pytest.raises(Permanent, match="links lead in a circle"):
            read(tree, path)


def test_as_many_links_as_the_system_takes_are_followed(tree):
    (tree / "root/link0").symlink_to("a/b/file")
    for number in range(1, spots.MOST_LINKS + 1):
        (tree / f"root/link{number}").symlink_to(f"link{number - 1}")
    assert read(tree, f"link{spots.MOST_LINKS - 1}") == "inside"
    with pytest.raises(Permanent, match="circle"):
        read(tree, f"link{spots.MOST_LINKS}")


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("a/b", "this is a folder"),
        ("a/b/file/x", "is a file, not a folder"),
        ("a/none", "no such file"),
        ("none/file", "no such file"),
        ("d/" * 3000 + "f", "longer than the system takes"),
        ("a/" + "x" * 300, "longer than the file system takes"),
        ("x" * 300 + "/y", "longer than the file system takes"),
    ],
)
def test_what_is_no_file_is_said_in_words(tree, path, why):
    with pytest.raises(Permanent, match=f"^file_path .*{why}"):
        read(tree, path)


@pytest.mark.parametrize("path", ["/proc/self/environ", "/proc/cpuinfo", "/dev/null", "/dev/zero"])
def test_what_the_system_makes_up_is_no_file(tree, path):
    if not Path(path).exists():
        pytest.skip("not on this system")
    with pytest.raises(Permanent, match=r"no regular file"):
        read(tree, path)


def test_a_pipe_is_refused_and_not_waited_for(tree):
    os.mkfifo(tree / "root/pipe")
    with pytest.raises(Permanent, match="no regular file"):
        read(tree, "pipe")


def test_folders_are_made_only_where_they_are_asked_for_and_none_outside(tree):
    (tree / "root/link").symlink_to("../outside/new")
    route = route_of("file_path", pieced(["x/y/", ["z"], "/file"]), root=tree / "root")
    with pytest.raises(Permanent, match="no such folder"), spot_of(route):
        pass
    assert not (tree / "root/x").exists()
    with spot_of(route, creates=True) as spot:
        assert spot.file() is None
    assert (tree / "root/x/y/z").is_dir()
    with (
        pytest.raises(Permanent, match="leads out"),
        spot_of(route_of("p", "link/file", root=tree / "root"), creates=True),
    ):
        pass
    assert not (tree / "outside/new").exists()


def test_a_folder_outside_that_is_written_is_made_too(tree):
    with spot_of(route_of("p", pieced(["../new/er/", ["x"]]), root=tree / "root"), creates=True):
        pass
    assert (tree / "new/er").is_dir()


@pytest.mark.parametrize("path", [".graphmill/x", "door/x", "deep/.graphmill/x", ".GRAPHMILL/x"])
def test_the_journals_folder_is_reached_by_no_way(tree, path):
    (tree / "root/.graphmill").mkdir()
    (tree / "root/.graphmill/x").write_text("journal")
    (tree / "root/door").symlink_to(".graphmill")
    (tree / "root/deep").symlink_to(".")
    with pytest.raises(Permanent, match="journal's own folder"):
        read(tree, pieced([[path]]))


def test_the_journals_folder_is_known_also_by_another_name(tree, monkeypatch):
    """As where a file system takes two names for the same that differ to us."""
    (tree / "root/.graphmill").mkdir()
    (tree / "root/.graphmill/x").write_text("journal")
    real = os.open
    monkeypatch.setattr(
        os,
        "open",
        lambda path, *rest, **more: real(".graphmill" if path == ".graph\u200cmill" else path, *rest, **more),
    )
    with pytest.raises(Permanent, match="journal's own folder"):
        read(tree, ".graph\u200cmill/x")


@pytest.mark.parametrize("link", ["a", "a/b", "a/b/file"])
def test_nobody_who_swaps_a_name_for_a_link_meanwhile_leads_us_out(tree, link):
    """A thread swaps folder and link as fast as it can while another reads and writes: what is outside is never met."""
    place, spare = tree / "root" / link, tree / "root/spare"
    spare.symlink_to(tree / "outside" / Path(link).relative_to("a"))
    is_over, third = [], tree / "root/third"

    def swap():
        while not is_over:
            for old, new in [(place, third), (spare, place), (third, spare)]:
                with suppress(FileNotFoundError):
                    old.rename(new)

    thread = Thread(target=swap)
    thread.start()
    ends = set()
    try:
        for _ in range(3000):
            try:
                ends.add(read(tree, ["a/b/file"]))
            except AttemptError as error:
                ends.add(type(error).__name__)
            route = route_of("file_path", pieced([["a/b/new"]]), root=tree / "root")
            with suppress(AttemptError), spot_of(route) as spot, spot.opened(os.O_WRONLY | os.O_CREAT):
                pass
    finally:
        is_over.append(True)
        thread.join()
    assert "outside" not in ends
    assert sorted(path.name for path in (tree / "outside").rglob("*")) == ["b", "file", "file"]
