import os
import shutil
import sys

import pytest

from ident3d.doctor import machine as limits

GIB = 1 << 30


@pytest.fixture
def system(tmp_path, monkeypatch):
    """A /proc and a /sys/fs/cgroup of one's own, written by ``write``."""
    monkeypatch.setattr(limits, "_PROC", tmp_path / "proc")
    monkeypatch.setattr(limits, "_CGROUPS", tmp_path / "groups")

    def write(name, text):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    return write


def test_the_tightest_of_the_groups_around_a_process_counts(system):
    system("proc/self/cgroup", "0::/job/step\n")
    system("groups/job/step/cpu.max", "max 100000\n")
    system("groups/job/cpu.max", "150000 100000\n")
    system("groups/job/memory.max", f"{3 * GIB}\n")
    system("groups/job/step/memory.max", f"{2 * GIB}\n")
    assert limits.processor().quota == 1.5
    assert limits.memory().limit == 2 * GIB


def test_older_kernels_have_a_tree_for_each_kind_of_limit(system):
    system("proc/self/cgroup", "4:memory:/docker/1\n3:cpu,cpuacct:/docker/1\n1:name=systemd:/docker/1\n")
    system("groups/cpu/docker/1/cpu.cfs_quota_us", "250000\n")
    system("groups/memory/docker/1/memory.limit_in_bytes", f"{GIB}\n")
    assert limits.processor().quota == 2.5
    assert limits.memory().limit == GIB
    system("groups/cpu/docker/1/cpu.cfs_quota_us", "-1\n")
    system("groups/memory/docker/1/memory.limit_in_bytes", "9223372036854771712\n")
    assert limits.processor().quota is None
    assert limits.memory().limit is None


def test_memory_is_read_in_bytes(system):
    system("proc/meminfo", "MemTotal:       2097152 kB\nMemAvailable:   1048576 kB\nHugePages_Total:       0\n")
    found = limits.memory()
    assert (found.total, found.available) == (2 * GIB, GIB)


def test_a_system_that_tells_nothing_is_no_fault(system):
    assert limits.processor().quota is None
    assert limits.memory().available is None
    assert limits.processor().name


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="a matter of Linux")
def test_cores_that_may_not_be_used_are_not_counted():
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(before)})
    try:
        assert limits.processor().usable == 1
    finally:
        os.sched_setaffinity(0, before)


def test_room_in_a_folder_that_is_not_there_yet_is_that_above_it(tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HOME", str(tmp_path / "not" / "there"))
    monkeypatch.chdir(tmp_path)
    here, _, hub = limits.disks()
    assert (here.path, hub.path) == (str(tmp_path), str(tmp_path / "not" / "there"))
    assert here.writable
    assert hub.writable
    assert hub.free == pytest.approx(shutil.disk_usage(tmp_path).free, rel=0.1)


@pytest.mark.skipif(sys.platform == "win32", reason="such a limit is a matter of Unix")
def test_the_limit_of_open_files_is_that_of_this_process():
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(soft, 512), hard))
    try:
        assert limits.limits().open_files == min(soft, 512)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
