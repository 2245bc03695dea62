import os
import subprocess
import sys
from collections import namedtuple

import psutil
import pytest

from graphmill.engine.monitor.machine import Machine, usable_cores

Times = namedtuple("Times", "user nice system idle iowait guest")
Memory = namedtuple("Memory", "total available")


class System:
    """What psutil tells of a system that the test is the whole of."""

    def __init__(self):
        self.memory = Memory(total=1000, available=1000)
        self.times = Times(0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
        self.now = 0.0


@pytest.fixture
def system(monkeypatch):
    system = System()
    monkeypatch.setattr(psutil, "virtual_memory", lambda: system.memory)
    monkeypatch.setattr(psutil, "cpu_times", lambda: system.times)
    return system


class Tree:
    """A folder that looks like /sys/fs/cgroup, and one like /proc."""

    def __init__(self, folder, system):
        self.root, self.proc = folder / "cgroup", folder / "proc"
        self.system = system
        self.root.mkdir()
        self.write_membership("0::/\n")

    def write_membership(self, text):
        (self.proc / "self").mkdir(parents=True, exist_ok=True)
        (self.proc / "self" / "cgroup").write_text(text)

    def write(self, group, **files):
        folder = self.root / group
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in files.items():
            (folder / name.replace("_", ".")).write_text(f"{text}\n")

    def memory(self, group="", *, current, limit, high="max", inactive=0):
        stat = f"anon 1\nfile 2\ninactive_anon 77\ninactive_file {inactive}\nactive_file 3"
        self.write(group, memory_max=limit, memory_high=high, memory_current=current, memory_stat=stat)

    def cpu(self, group="", *, quota="max 100000", usage_us):
        self.write(group, cpu_max=quota, cpu_stat=f"usage_usec {usage_us}\nuser_usec 1\nsystem_usec 2")

    def machine(self):
        return Machine(self.root, self.proc, clock=lambda: self.system.now)


@pytest.fixture
def tree(tmp_path, system):
    return Tree(tmp_path, system)


def test_this_machine_has_sane_figures():
    machine = Machine()
    first, second = machine.read(), machine.read()
    assert first.cpu == 0.0
    assert 0 < first.memory <= 1
    assert 0 <= second.cpu <= 1


@pytest.mark.parametrize(
    ("quota", "cores"), [("max 100000", 5), ("200000 100000", 2), ("50000 100000", 1), ("900000 100000", 5)]
)
def test_as_many_cores_can_be_used_as_the_scheduler_and_every_quota_allow(tree, monkeypatch, quota, cores):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(5)), raising=False)
    tree.write_membership("0::/a.slice/b.service\n")
    tree.cpu("a.slice", quota=quota, usage_us=0)
    assert usable_cores(tree.root, tree.proc) == cores


def test_without_control_groups_the_system_is_what_counts(tmp_path, system):
    system.memory = Memory(total=1000, available=400)
    assert Machine(tmp_path / "none", tmp_path / "none").read().memory == pytest.approx(0.6)


def test_a_container_sees_its_own_limit_at_the_root(tree):
    tree.memory(current=700, limit=1000)
    assert tree.machine().read().memory == pytest.approx(0.7)


def test_file_cache_that_can_be_dropped_is_not_in_use(tree):
    tree.memory(current=900, limit=1000, inactive=600)
    assert tree.machine().read().memory == pytest.approx(0.3)


def test_the_fuller_of_system_and_control_group_counts(tree):
    tree.memory(current=500, limit=1000)
    machine = tree.machine()
    tree.system.memory = Memory(total=1000, available=100)
    assert machine.read().memory == pytest.approx(0.9)
    tree.system.memory = Memory(total=1000, available=900)
    tree.system.now += 1
    assert machine.read().memory == pytest.approx(0.5)


@pytest.mark.parametrize("tight", ["", "a.slice", "a.slice/b.service"])
def test_the_tightest_limit_on_the_way_to_the_root_counts(tree, tight):
    tree.write_membership("4:memory:/elsewhere\n0::/a.slice/b.service\n")
    for group in ("", "a.slice", "a.slice/b.service"):
        tree.memory(group, current=400, limit=500 if group == tight else 4000)
    tree.memory("a.slice/sibling", current=1, limit=1)
    assert tree.machine().read().memory == pytest.approx(0.8)


def test_a_group_that_is_not_mounted_leaves_the_limit_at_the_root(tree):
    tree.write_membership("0::/docker/abc\n")
    tree.memory(current=700, limit=1000)
    assert tree.machine().read().memory == pytest.approx(0.7)


@pytest.mark.parametrize(("limit", "high"), [(1000, 500), (500, 1000), ("max", 500), (500, "max")])
def test_the_lower_of_the_hard_and_the_soft_limit_counts(tree, limit, high):
    tree.memory(current=400, limit=limit, high=high)
    assert tree.machine().read().memory == pytest.approx(0.8)


@pytest.mark.parametrize(
    ("current", "inactive", "limit", "share"), [(900, 0, 500, 1.0), (100, 200, 500, 0.0), (1, 0, 0, 1.0)]
)
def test_a_share_stays_between_0_and_1_whatever_the_counters_say(tree, current, inactive, limit, share):
    tree.memory(current=current, inactive=inactive, limit=limit)
    assert tree.machine().read().memory == share


def test_a_limit_that_changes_while_we_run_is_noticed(tree):
    tree.memory(current=400, limit="max")
    machine = tree.machine()
    assert machine.read().memory == 0.0
    tree.memory(current=400, limit=500)
    tree.system.now += 1
    assert machine.read().memory == pytest.approx(0.8)


GARBAGE = ["", "x", "-5", "0x10", "1 2 3", "9" * 5000, "max max", "nan", "\x00\xff", "usage_usec", "inactive_file x"]


@pytest.mark.parametrize("name", ["memory_max", "memory_current", "memory_stat", "cpu_max", "cpu_stat"])
@pytest.mark.parametrize("text", GARBAGE)
def test_a_file_that_makes_no_sense_is_no_limit(tree, name, text):
    tree.memory(current=900, limit=1000)
    tree.cpu(quota="100000 100000", usage_us=0)
    machine = tree.machine()
    machine.read()
    tree.system.now = 1.0
    tree.cpu(quota="100000 100000", usage_us=900_000)
    tree.write("", **{name: text})
    read = machine.read()
    assert (read.memory if name.startswith("memory") else read.cpu) == 0.0


def test_files_that_vanish_while_we_run_are_no_limit(tree):
    tree.memory(current=900, limit=1000)
    tree.cpu(quota="100000 100000", usage_us=0)
    machine = tree.machine()
    assert machine.read().memory == pytest.approx(0.9)
    for path in tree.root.iterdir():
        path.unlink()
        tree.system.now += 1
        machine.read()
    assert (machine.read().memory, machine.read().cpu) == (0.0, 0.0)


def test_cpu_is_the_busy_share_since_the_last_reading(tree):
    machine = tree.machine()
    tree.system.times = Times(user=100.0, nice=0.0, system=0.0, idle=0.0, iowait=0.0, guest=50.0)
    assert machine.read().cpu == 0.0
    tree.system.times = Times(user=102.0, nice=0.0, system=1.0, idle=6.0, iowait=1.0, guest=51.0)
    tree.system.now += 1
    assert machine.read().cpu == pytest.approx(0.3)
    tree.system.now += 1
    assert machine.read().cpu == 0.0


def test_two_runs_that_ask_one_after_the_other_get_the_same_reading(tree):
    machine = tree.machine()
    machine.read()
    tree.system.times = Times(user=3.0, nice=0.0, system=0.0, idle=7.0, iowait=0.0, guest=0.0)
    tree.system.now += 0.5
    first = machine.read()
    tree.system.now += 0.003
    assert machine.read() == first
    assert first.cpu == pytest.approx(0.3)


def test_a_quota_is_used_up_by_its_group(tree):
    tree.write_membership("0::/a/b\n")
    tree.cpu("a", quota="150000 100000", usage_us=5_000_000)  # one CPU and a half
    tree.cpu("a/b", usage_us=5_000_000)
    machine = tree.machine()
    assert machine.read().cpu == 0.0
    tree.system.now = 2.0
    tree.cpu("a", quota="150000 100000", usage_us=7_400_000)
    assert machine.read().cpu == pytest.approx(0.8)


@pytest.mark.parametrize("quota", ["max 100000", "0 100000", "100000 0"])
def test_what_is_no_quota_does_not_count(tree, quota):
    tree.cpu(quota=quota, usage_us=0)
    machine = tree.machine()
    machine.read()
    tree.system.now = 1.0
    tree.cpu(quota=quota, usage_us=10**9)
    assert machine.read().cpu == 0.0


def test_a_quota_set_while_we_run_counts_from_its_second_reading(tree):
    tree.cpu(usage_us=0)
    machine = tree.machine()
    shares = []
    for second in (1, 2, 3):
        tree.system.now = float(second)
        tree.cpu(quota="100000 100000", usage_us=second * 900_000)
        shares.append(machine.read().cpu)
    assert shares == [0.0, pytest.approx(0.9), pytest.approx(0.9)]


def test_a_system_that_hides_its_figures_counts_as_empty(tree, monkeypatch):
    def hidden(*_):
        raise PermissionError("hidden")

    for name in ("virtual_memory", "cpu_times"):
        monkeypatch.setattr(psutil, name, hidden)
    machine = tree.machine()
    machine.read()
    read = machine.read()
    assert (read.memory, read.cpu) == (0.0, 0.0)


def test_psutil_is_not_imported_before_a_machine_is_made():
    code = "import sys, graphmill, graphmill.engine.monitor.machine; sys.exit('psutil' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
