import subprocess

import pytest

from graphmill.journal.manifest import commit_of

FIRST, SECOND = "1" * 40, "2" * 64


@pytest.fixture
def repository(tmp_path):
    (tmp_path / ".git" / "refs" / "heads").mkdir(parents=True)
    (tmp_path / ".git" / "HEAD").write_text("ref: refs/heads/main\n")
    return tmp_path


def test_the_commit_of_a_branch_is_found_from_the_folder_and_from_any_below(repository):
    (repository / ".git" / "refs" / "heads" / "main").write_text(f"{FIRST}\n")
    below = repository / "a" / "b"
    below.mkdir(parents=True)
    assert commit_of(repository) == commit_of(below) == FIRST


def test_a_packed_branch_is_found_and_a_loose_one_goes_before_it(repository):
    packed = f"# pack-refs with: peeled\n{FIRST} refs/heads/main-2\n{SECOND} refs/heads/main\n^{FIRST}\n"
    (repository / ".git" / "packed-refs").write_text(packed)
    assert commit_of(repository) == SECOND
    (repository / ".git" / "refs" / "heads" / "main").write_text(f"{FIRST}\n")
    assert commit_of(repository) == FIRST


def test_a_commit_checked_out_without_a_branch_is_found(repository):
    (repository / ".git" / "HEAD").write_text(f"{FIRST}\n")
    assert commit_of(repository) == FIRST


def test_a_worktree_has_its_own_head_and_shares_the_branches(repository, tmp_path_factory):
    (repository / ".git" / "refs" / "heads" / "other").write_text(f"{FIRST}\n")
    own = repository / ".git" / "worktrees" / "tree"
    own.mkdir(parents=True)
    (own / "HEAD").write_text("ref: refs/heads/other\n")
    (own / "commondir").write_text("../..\n")
    tree = tmp_path_factory.mktemp("tree")
    (tree / ".git").write_text(f"gitdir: {own}\n")
    assert commit_of(tree) == FIRST


@pytest.mark.parametrize("head", ["", "ref: refs/heads/none\n", "ref: ../HEAD\n", "no hash\n", "ref: \0\n"])
def test_what_is_no_commit_is_none(repository, head):
    (repository / ".git" / "HEAD").write_text(head)
    assert commit_of(repository) is None


@pytest.mark.parametrize("content", [b"", b"gitdir: /nowhere", b"\xff\xfe"])
def test_a_mark_that_leads_nowhere_is_none(tmp_path, content):
    (tmp_path / ".git").write_bytes(content)
    assert commit_of(tmp_path) is None


def test_it_is_what_git_says(tmp_path):
    def git(*arguments):
        identity = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
        return subprocess.run(
            ["git", *identity, *arguments], cwd=tmp_path, check=True, capture_output=True, text=True
        ).stdout.strip()

    try:
        git("init")
    except FileNotFoundError:
        pytest.skip("git is not installed")
    git("commit", "--allow-empty", "-m", "first")
    assert commit_of(tmp_path) == git("rev-parse", "HEAD")
    git("pack-refs", "--all")
    assert commit_of(tmp_path) == git("rev-parse", "HEAD")
    git("checkout", "--detach")
    assert commit_of(tmp_path) == git("rev-parse", "HEAD")
