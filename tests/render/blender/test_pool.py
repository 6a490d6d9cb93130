import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from ident3d.scene.world import World
from render.blender.pool import Pool, WorkerLimits
from render.blender.protocol import BlenderMissingError, Device, Job, RenderError, Settings, WorkerDiedError
from render.blender.quality import QUALITIES
from tests.render import fake_worker

ROOT = Path(__file__).resolve().parents[3]
SCENE = World().scene(np.zeros(10))
SETTINGS = Settings(QUALITIES["draft"], resolution=8)
TEN = [Job(f"image {i}", SCENE, i) for i in range(10)]


@pytest.fixture
def blender(tmp_path):
    """A program that takes itself for Blender and starts the fake worker; the log folder is beside it."""
    log = tmp_path / "log"
    log.mkdir()
    script = tmp_path / "blender"
    script.write_text(
        f'#!/bin/sh\nif [ "$1" = --version ]; then echo "Blender 4.5.0"; exit; fi\n'
        f'"{sys.executable}" "{fake_worker.__file__}" "{log}"\n'  # a child of the shell, as in many launchers
    )
    script.chmod(0o755)
    return script


def _pids(blender):
    return {int(path.name.removeprefix("pid-")) for path in (blender.parent / "log").glob("pid-*")}


def _alive(pid):
    stat = Path(f"/proc/{pid}/stat")
    return stat.exists() and stat.read_text().rpartition(")")[2].split()[0] != "Z"


def _no_process_is_left(blender):
    deadline = time.monotonic() + 5  # the kernel takes a moment to bury a killed process
    while any(map(_alive, _pids(blender))):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    return True


def _expected(jobs):
    return {job.key: str(job.seed).encode() * 30_000 for job in jobs}


@pytest.mark.parametrize("workers", [1, 3])
def test_every_job_comes_back_once(blender, workers):
    with Pool(SETTINGS, workers, blender=blender) as pool:
        assert pool.about.device_name == "fake"
        images = list(pool.render(iter(TEN)))
        assert dict(images) == _expected(TEN)
        assert len(images) == len(TEN)
        assert dict(pool.render(TEN[:2])) == _expected(TEN[:2])  # and again with the same workers
        assert dict(pool.render([])) == {}
    assert len(_pids(blender)) <= workers
    assert pool.pids == []
    assert _no_process_is_left(blender)


def test_jobs_are_taken_as_workers_become_free(blender):
    taken = []
    with Pool(SETTINGS, 2, blender=blender) as pool:
        images = pool.render(taken.append(job.key) or job for job in TEN)
        next(images)
        assert len(taken) <= 5
        assert len(list(images)) == 9


def test_a_worker_that_dies_is_replaced_and_its_image_made_again(blender, caplog):
    jobs = [*TEN, Job("fragile", SCENE, fake_worker.SEED_THAT_KILLS_ONCE)]
    with Pool(SETTINGS, 2, blender=blender) as pool:
        assert dict(pool.render(jobs)) == _expected(jobs)
    assert "'fragile' is rendered again" in caplog.text
    assert "out of cheese" in caplog.text


def test_a_worker_that_is_killed_from_outside_is_replaced(blender):
    with Pool(SETTINGS, 1, blender=blender) as pool:
        images = pool.render(TEN)
        done = dict([next(images)])
        for pid in _pids(blender):
            os.kill(pid, signal.SIGKILL)
        done |= dict(images)
    assert done == _expected(TEN)
    assert len(_pids(blender)) == 2


def test_a_worker_that_hangs_is_ended_and_its_image_made_again(blender, caplog):
    jobs = [Job("stuck", SCENE, fake_worker.SEED_THAT_HANGS_ONCE), *TEN]
    with Pool(SETTINGS, 1, blender=blender, limits=WorkerLimits(silence_s=4)) as pool:
        assert dict(pool.render(jobs)) == _expected(jobs)
    assert "has not answered for 4 seconds" in caplog.text
    assert "'stuck' is rendered again" in caplog.text
    assert _no_process_is_left(blender)


def test_an_image_that_kills_three_workers_is_reported_with_their_last_lines(blender, caplog):
    jobs = [Job("deadly", SCENE, fake_worker.SEED_THAT_KILLS), *TEN]
    with (
        Pool(SETTINGS, 1, blender=blender) as pool,
        pytest.raises(WorkerDiedError, match=r"3 workers died on image 'deadly'(.|\n)*last lines(.|\n)*out of cheese"),
    ):
        dict(pool.render(jobs))
    assert caplog.text.count("'deadly' is rendered again") == 2
    assert _no_process_is_left(blender)


def test_what_is_under_way_when_an_image_fails_is_still_yielded(blender):
    jobs = [TEN[0], Job("refused", SCENE, fake_worker.SEED_THAT_IS_REFUSED), *TEN[1:]]
    done = {}
    with Pool(SETTINGS, 2, blender=blender) as pool, pytest.raises(RenderError, match="no such scene"):
        done.update(pool.render(jobs))  # takes the images one by one, up to the error
    assert "image 0" in done
    assert done.items() <= _expected(TEN).items()


def test_what_blender_complains_about_is_passed_on_once(blender, caplog):
    jobs = [Job(f"image {i}", SCENE, fake_worker.SEED_THAT_IS_COMPLAINED_ABOUT) for i in range(5)]
    with Pool(SETTINGS, 1, blender=blender) as pool:
        assert len(dict(pool.render(jobs))) == 5
    assert caplog.text.count("Blender: Error: the denoiser is tired") == 1


@pytest.mark.parametrize("trouble", ["FAKE_HANG", "FAKE_CRASH"])
def test_workers_that_hang_or_crash_at_their_end_do_no_harm(blender, monkeypatch, trouble):
    monkeypatch.setenv(trouble, "1")
    monkeypatch.setattr("render.blender.process._EXIT_S", 0.2)
    with Pool(SETTINGS, 2, blender=blender) as pool:
        assert dict(pool.render(TEN)) == _expected(TEN)
    assert _no_process_is_left(blender)


@pytest.mark.parametrize("patience", [WorkerLimits(images=4), WorkerLimits(growth_bytes=10**6)])
def test_workers_are_renewed_after_many_images_or_when_they_grow(blender, monkeypatch, patience):
    monkeypatch.setenv("FAKE_GROWTH", "500000")
    jobs = [Job(i, SCENE, 100 + i) for i in range(20)]
    with Pool(SETTINGS, 1, blender=blender, limits=patience) as pool:
        assert dict(pool.render(jobs)) == _expected(jobs)
    assert len(_pids(blender)) == (5 if patience.images == 4 else 2)  # growth is counted from the tenth image on


def test_an_error_of_the_caller_ends_busy_workers_at_once(blender):
    forever = Job("forever", SCENE, fake_worker.SEED_THAT_TAKES_FOREVER)
    began = time.monotonic()
    with pytest.raises(ZeroDivisionError), Pool(SETTINGS, 2, blender=blender) as pool:  # noqa: PT012
        for _ in pool.render([forever, *TEN]):
            raise ZeroDivisionError
    assert time.monotonic() - began < 30
    assert _no_process_is_left(blender)


def test_a_caller_that_stops_early_ends_the_workers(blender):
    with Pool(SETTINGS, 2, blender=blender) as pool:
        images = pool.render(TEN)
        next(images)
        images.close()
        with pytest.raises(RenderError, match="has no workers"):
            list(pool.render(TEN))
    assert _no_process_is_left(blender)


def test_ctrl_c_ends_everything(blender):
    program = (
        "import numpy as np\n"
        "from tests.render.blender.test_pool import *\n"
        f"with Pool(SETTINGS, 2, blender={str(blender)!r}) as pool:\n"
        "    for key, _ in pool.render([*TEN[:3], Job('forever', SCENE, fake_worker.SEED_THAT_TAKES_FOREVER)]):\n"
        "        print(key, flush=True)\n"
    )
    parent = subprocess.Popen(
        [sys.executable, "-c", program], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    timer = threading.Timer(120, parent.kill)  # the machine may be busy
    timer.start()
    try:
        assert sorted(parent.stdout.readline().strip() for _ in range(3)) == ["image 0", "image 1", "image 2"]
        parent.send_signal(signal.SIGINT)
        _, errors = parent.communicate()
    finally:
        timer.cancel()
    assert errors.rstrip().endswith("KeyboardInterrupt")
    assert parent.returncode in (-signal.SIGINT, 130)
    assert _no_process_is_left(blender)


def test_a_killed_parent_leaves_no_worker_behind(blender):
    program = (
        "import os, signal\n"
        "from tests.render.blender.test_pool import *\n"
        f"with Pool(SETTINGS, 1, blender={str(blender)!r}) as pool:\n"
        "    next(pool.render(TEN))\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, timeout=120, check=False)
    assert done.returncode == -signal.SIGKILL
    assert _no_process_is_left(blender)


def test_a_killed_parent_leaves_no_stopped_worker_and_no_folder_behind(blender, tmp_path):
    program = (
        "import os, signal\n"
        "import render.blender.process\n"
        "from tests.render.blender.test_pool import *\n"
        "from tests.render.blender.test_pool import _pids\n"
        f"render.blender.process._memory_folder = lambda: {str(tmp_path)!r}\n"
        f"with Pool(SETTINGS, 1, blender={str(blender)!r}) as pool:\n"
        "    next(pool.render(TEN))\n"
        f"    pids = _pids(Path({str(blender)!r}))\n"
        "    [os.kill(pid, signal.SIGSTOP) for pid in pids]\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, timeout=120, check=False)
    assert done.returncode == -signal.SIGKILL
    assert _pids(blender)
    assert _no_process_is_left(blender)
    deadline = time.monotonic() + 10
    while list(tmp_path.glob("ident3d-*")):
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_folders_of_dead_processes_are_removed_and_those_of_live_ones_stay(blender, tmp_path, monkeypatch):
    monkeypatch.setattr("render.blender.process._memory_folder", lambda: str(tmp_path))
    names = ("ident3d-dead", "ident3d-being-made", "ident3d-old", "other-dead")
    dead, made, old, other = (tmp_path / name for name in names)
    for folder in (dead, made, old, other):
        folder.mkdir()
        (folder / "image.png").touch()
    (dead / "alive").touch()
    (other / "alive").touch()
    os.utime(old, (0, 0))
    with Pool(SETTINGS, 1, blender=blender) as pool:
        [live] = {path.name for path in tmp_path.glob("ident3d-*")} - {made.name}
        with Pool(SETTINGS, 1, blender=blender) as another:
            assert (tmp_path / live / "alive").exists()
            assert dict(another.render(TEN[:2])) == _expected(TEN[:2])
        assert dict(pool.render(TEN[:2])) == _expected(TEN[:2])
    assert {path.name for path in tmp_path.glob("*-*")} == {made.name, other.name}


def test_a_stopped_worker_is_ended_and_reported_with_its_image(blender, caplog):
    limits = WorkerLimits(silence_s=3, tries=1)
    stopped = [Job("stopped", SCENE, fake_worker.SEED_THAT_STOPS)]
    with Pool(SETTINGS, 1, blender=blender, limits=limits) as pool, pytest.raises(WorkerDiedError, match="'stopped'"):
        dict(pool.render(stopped))
    assert "has not answered for 3 seconds" in caplog.text
    assert _no_process_is_left(blender)


def test_a_worker_that_dies_before_it_is_ready_is_started_again(blender, monkeypatch, caplog):
    monkeypatch.setenv("FAKE_EARLY_DEATH", "1")
    with Pool(SETTINGS, 1, blender=blender) as pool:
        assert dict(pool.render(TEN[:2])) == _expected(TEN[:2])
    assert caplog.text.count("a worker is started again: the worker ended with exit status 137") == 1


@pytest.mark.parametrize(
    ("quality", "resolution", "device", "first", "seconds"),
    [
        ("draft", 16, "cpu", True, 120.128),
        ("published", 224, "cpu", True, 120 + 224 * 224 * 520 / 20_000),
        ("draft", 16, "optix", True, 1920.128),
        ("draft", 16, "optix", False, 120.128),
    ],
)
def test_an_image_is_waited_for_by_its_size_quality_and_device(quality, resolution, device, first, seconds):
    settings = Settings(QUALITIES[quality], resolution, Device(device))
    assert WorkerLimits().image_s(settings, first=first) == pytest.approx(seconds)
    assert WorkerLimits(silence_s=7).image_s(settings, first=first) == 7


def test_a_program_that_ends_before_it_is_ready_is_reported_with_its_last_words(tmp_path):
    script = tmp_path / "blender"
    script.write_text(
        '#!/bin/sh\nif [ "$1" = --version ]; then echo "Blender 4.5.0"; exit; fi\necho no display >&2; exit 3\n'
    )
    script.chmod(0o755)
    with (
        pytest.raises(WorkerDiedError, match=r"ended with exit status 3; its last lines:\nno display"),
        Pool(SETTINGS, 1, blender=script),
    ):
        pass


def test_wrong_settings_are_refused_before_anything_starts(tmp_path):
    with pytest.raises(ValueError, match="1 or more workers, not 0"):
        Pool(SETTINGS, 0)
    with pytest.raises(ValueError, match="4 to 8192 pixels per side, not 0"):
        Settings(QUALITIES["draft"], resolution=0)
    with pytest.raises(ValueError, match="1 or more threads"):
        Settings(QUALITIES["draft"], resolution=8, threads=0)
    with pytest.raises(ValueError, match="expected tries"):
        WorkerLimits(tries=0)
    with pytest.raises(ValueError, match="silence_s of more than 0 seconds, not nan"):
        WorkerLimits(silence_s=float("nan"))
    with pytest.raises(FileNotFoundError, match="does not exist; expected a Python that has bpy"):
        Pool(SETTINGS, 1, blender=tmp_path / "nothing")
    text = tmp_path / "text"
    text.write_text("#!/bin/sh\necho gimp 2.0\n")
    text.chmod(0o755)
    with pytest.raises(
        BlenderMissingError, match=r"neither a Python nor a Blender executable: --version says 'gimp 2.0'"
    ):
        Pool(SETTINGS, 1, blender=text)
