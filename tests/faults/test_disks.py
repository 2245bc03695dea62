"""G5, G6: a store that is full, gone, read-only or damaged stops the command with the right status, and hangs nothing."""

import os
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing, contextmanager, suppress
from random import Random

import pytest

from faults.checker import problems
from faults.crash_points import HANG_S
from faults.effects import count_lines, items
from faults.project import RUN, Project
from faults.summary import held, shown

SMALL_BYTES = 256 * 1024


def padded(count):
    """Make items that take up room, and that no compression makes small."""
    random = Random("pads")
    return [{**item, "pad": random.randbytes(10_000).hex()} for item in items(count, ms=(1,))]


def is_mounting():
    """Tell whether this user may mount: root may, but not in every container."""
    probe = "mount -t tmpfs none /mnt && umount /mnt"
    return (
        os.geteuid() == 0
        and subprocess.run(["unshare", "-m", "sh", "-c", probe], check=False, capture_output=True).returncode == 0
    )


@contextmanager
def mounted(folder, options):
    folder.mkdir(mode=0o700, exist_ok=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "none", folder], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", folder], check=True)


def require_stopped(done):
    assert done.code == 74, done
    assert "Traceback" not in done.err
    assert done.err.strip()


def require_finished(project, *, kills=1):
    done = project.run("resume", RUN)
    assert done.code == 0, done
    assert problems(project, project.exported(), kills=kills) == []


def test_a_store_that_may_not_grow_stops_the_run_which_goes_on_when_it_may(tmp_path):
    project = Project(tmp_path / "project", padded(40))
    done = project.run(*project.batch, "--json", limits=f"-f {SMALL_BYTES // 512}", within_s=HANG_S)
    require_stopped(done)
    assert shown(done) <= held(project)
    require_finished(project)


@pytest.mark.skipif(not is_mounting(), reason="only root can mount a small disk")
def test_a_full_disk_stops_the_run_which_goes_on_when_there_is_room(tmp_path):
    project = Project(tmp_path / "project", padded(40))
    with mounted(project.store, f"size={SMALL_BYTES}"):
        done = project.run(*project.batch, "--json", within_s=HANG_S)
        require_stopped(done)
        assert shown(done) <= held(project)
        subprocess.run(["mount", "-o", "remount,size=64m", project.store], check=True)
        require_finished(project)


@pytest.mark.skipif(not is_mounting(), reason="only root can mount a small disk")
def test_on_a_full_disk_it_kills_nobody_to_note_what_is_under_way(tmp_path):
    """Memory that is mapped to a file without room is a SIGBUS at the first touch; no command gets there at will."""
    note = (
        "from graphmill.journal.scratch import InFlightFile; from pathlib import Path; "
        "InFlightFile(Path('disk/flight')).enter(bytes(range(16)))"
    )
    with mounted(tmp_path / "disk", "size=64k"):
        with suppress(OSError), (tmp_path / "disk" / "rest").open("wb", buffering=0) as rest:
            while rest.write(bytes(4096)):
                pass
        assert subprocess.run([sys.executable, "-c", note], cwd=tmp_path, check=False).returncode == 0


@pytest.mark.skipif(not is_mounting(), reason="only root can mount a disk")
def test_a_disk_that_turns_read_only_stops_the_run_which_goes_on_when_it_is_writable(tmp_path):
    project = Project(tmp_path / "project", items(12))
    with mounted(project.store, "size=64m"):
        done = project.run(*project.batch, launch=("after-attempt", 6))
        assert done.is_killed, done
        subprocess.run(["mount", "-o", "remount,ro", project.store], check=True)
        done = project.run("resume", RUN, within_s=HANG_S)
        require_stopped(done)
        subprocess.run(["mount", "-o", "remount,rw", project.store], check=True)
        require_finished(project)


def test_a_store_that_is_deleted_under_the_run_stops_it(tmp_path):
    project = Project(tmp_path / "project", items(12))
    project.shut()
    with project.start(*project.batch, "--json") as command:
        command.until(lambda: count_lines(project.log) >= project.concurrency)
        shutil.rmtree(project.store)
        project.open()
        code = command.wait(HANG_S)
    assert code == 74, command.err
    assert "Traceback" not in command.err


@pytest.fixture
def killed(tmp_path):
    """A project whose run was killed half-way, with all that was committed in one file."""
    project = Project(tmp_path / "project", items(30, ms=(2,)))
    done = project.run(*project.batch, launch=("before-attempt", 20))
    assert done.is_killed, done
    with closing(sqlite3.connect(project.store / "runs.db")) as base:
        base.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return project


@pytest.mark.parametrize("share", [0.0, 0.3, 0.9])
def test_a_truncated_store_is_named_and_answers_nothing_wrong(killed, share):
    base = killed.store / "runs.db"
    os.truncate(base, int(base.stat().st_size * share))
    done = killed.run("resume", RUN, within_s=HANG_S)
    assert done.code in ((2, 65, 74) if share == 0 else (65, 74)), done
    assert "Traceback" not in done.err
    assert "runs.db" in done.err or "damage" in done.err


@pytest.mark.parametrize("seed", range(6))
def test_a_changed_byte_is_an_error_or_changes_nothing(killed, seed):
    changed_byte(killed.store / "runs.db", seed)
    done = killed.run("resume", RUN, within_s=HANG_S)
    assert "Traceback" not in done.err
    if done.code == 0:
        done = killed.run("export", RUN, "out/all.jsonl", within_s=HANG_S)
    if done.code == 0:
        assert problems(killed, killed.exported(), kills=1) == []
    else:
        assert done.code in (65, 74), done


def changed_byte(path, seed):
    data = bytearray(path.read_bytes())
    place = (2 * seed + 1) * len(data) // 12
    data[place] ^= 0x55
    path.write_bytes(data)
