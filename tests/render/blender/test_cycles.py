import io
import sys
from contextlib import contextmanager
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from ident3d.scene.world import World
from render.blender.pool import Pool
from render.blender.process import Program, WorkerProcess
from render.blender.protocol import BlenderMissingError, Device, DeviceMissingError, Job, RenderError, Settings
from render.blender.quality import QUALITIES, LightChoice

pytestmark = pytest.mark.skipif(find_spec("bpy") is None, reason="bpy is not installed")

REFERENCE = Path(__file__).parents[1] / "data" / "reference"
WORLD = World()
LATENTS = np.load(REFERENCE / "raw_latents.npy")
SCENES = [WORLD.scene(row) for row in LATENTS]
SMALL = Settings(QUALITIES["draft"], resolution=24, device=Device.CPU)


@contextmanager
def _worker(settings, program=None):
    worker = WorkerProcess(program or Program.find(), settings)
    try:
        worker.greet()
        yield worker
        worker.close()
    finally:
        worker.kill()


@pytest.fixture(scope="module")
def worker():
    with _worker(SMALL) as worker:
        yield worker


def _pixels(png):
    with Image.open(io.BytesIO(png) if isinstance(png, bytes) else png) as image:
        return np.asarray(image.convert("RGB")).astype(float)


def _psnr(png, reference):
    return 10 * np.log10(255**2 / np.mean((_pixels(png) - _pixels(reference)) ** 2))


def test_an_image_is_a_bare_png(worker):
    png = worker.render(SCENES[0], 1).png
    with Image.open(io.BytesIO(png)) as image:
        assert (image.format, image.mode, image.size) == ("PNG", "RGB", (24, 24))
        image.load()
        assert not {"Date", "RenderTime", "Time", "Software"} & set(image.info)
    assert worker.render(SCENES[0], 1).png == png


def test_an_image_depends_on_its_scene_and_seed_alone(worker):
    first = worker.render(SCENES[0], 1).png
    other_seed = worker.render(SCENES[0], 2).png  # with the scene unchanged, Blender tends to keep the old seed
    other_scene = worker.render(SCENES[1], 1).png
    assert len({first, other_seed, other_scene}) == 3
    for scene in SCENES[2:]:
        worker.render(scene, 5)
    assert worker.render(SCENES[0], 2).png == other_seed
    assert worker.render(SCENES[1], 1).png == other_scene
    assert worker.render(SCENES[0], 1).png == first


def test_another_process_with_other_threads_renders_the_same(worker):
    with _worker(replace(SMALL, threads=2)) as fresh:
        for i in (4, 0):
            assert fresh.render(SCENES[i], i).png == worker.render(SCENES[i], i).png


def test_a_pool_renders_the_same_whatever_the_number_of_workers(worker):
    jobs = [Job(i, scene, 2**31 - 1 - i) for i, scene in enumerate(SCENES)]
    with Pool(SMALL, workers=2) as pool:
        images = dict(pool.render(jobs))
    assert images == {job.key: worker.render(job.scene, job.seed).png for job in jobs}


def test_a_scene_of_another_make_is_built_and_the_old_one_too(worker):
    before = worker.render(SCENES[0], 3).png
    objects = (replace(SCENES[0].objects[0], shape="plane", scale=3.0), SCENES[0].objects[1])
    assert worker.render(replace(SCENES[0], objects=objects), 3).png != before
    assert worker.render(replace(SCENES[0], lights=SCENES[0].lights[:2]), 3).png != before
    dark = worker.render(replace(SCENES[0], lights=()), 3).png
    assert _pixels(dark).max() == 0  # nothing shines but the lamps
    assert worker.render(SCENES[0], 3).png == before


def test_y_points_right_and_z_up_in_the_image(worker):
    def middle(location):
        teapot = replace(SCENES[0].objects[0], location=location, rotation=(0, 0, 0))
        shown = _pixels(worker.render(replace(SCENES[0], objects=(teapot,)), 1).png).sum(axis=2) > 10
        row, column = np.argwhere(shown).mean(axis=0)
        return row, column

    row, column = middle((0, 0, 1))
    assert middle((0, 2, 1))[1] > column + 2
    assert middle((0, 0, 3))[0] < row - 2


@pytest.mark.parametrize(
    ("name", "least"), [pytest.param("published", 46, marks=pytest.mark.slow), ("standard", 36), ("draft", 30)]
)
def test_qualities_reproduce_the_small_references(name, least):
    with _worker(Settings(QUALITIES[name], resolution=64, device=Device.CPU)) as worker:
        assert _psnr(worker.render(SCENES[0], 7).png, REFERENCE / "000-64.png") > least


def test_the_published_hue_map_reproduces_its_small_reference():
    row = np.load(REFERENCE / "published" / "raw_latents.npy")[0]
    scene = WORLD.with_hue_map("published").scene(row)
    reference = REFERENCE / "published" / "000-64.png"
    with _worker(Settings(QUALITIES["standard"], resolution=64, device=Device.CPU)) as worker:
        assert _psnr(worker.render(scene, 7).png, reference) > 36
        assert _psnr(worker.render(WORLD.scene(row), 7).png, reference) < 25


def test_a_light_that_is_sampled_more_often_shines_no_brighter():
    scene = replace(SCENES[0], objects=SCENES[0].objects[1:])
    images = []
    for choice in (LightChoice.EQUAL, LightChoice.WEIGHTED):
        sampler = replace(QUALITIES["draft"], samples=64, light_choice=choice, denoiser=None)
        with _worker(Settings(sampler, resolution=16, device=Device.CPU)) as worker:
            images.append(_pixels(worker.render(scene, 1).png))
    assert abs(images[0].mean() - images[1].mean()) < 0.3


@pytest.mark.slow
def test_standard_quality_is_faithful_to_the_reference_images():
    with _worker(Settings(QUALITIES["standard"], resolution=224, device=Device.CPU)) as worker:
        wrapped = [
            _psnr(worker.render(scene, 50 + i).png, REFERENCE / f"{i:03d}.png") for i, scene in enumerate(SCENES)
        ]
        folder = REFERENCE / "published"
        world = WORLD.with_hue_map("published")
        published = [
            _psnr(worker.render(world.scene(row), 60 + i).png, folder / f"{i:03d}.png")
            for i, row in enumerate(np.load(folder / "raw_latents.npy"))
        ]
    for psnr in (wrapped, published):
        assert np.mean(psnr) > 44
        assert np.min(psnr) > 42


@pytest.mark.slow
def test_published_quality_is_faithful_to_a_reference_image():
    with _worker(Settings(QUALITIES["published"], resolution=224, device=Device.CPU)) as worker:
        assert _psnr(worker.render(SCENES[4], 3).png, REFERENCE / "004.png") > 52


def test_what_blender_cannot_render_is_an_error_and_the_worker_goes_on(worker):
    with pytest.raises(RenderError, match=r"below 2\*\*31, not 2147483648"):
        worker.render(SCENES[0], 2**31)
    with pytest.raises(RenderError, match="not -1"):
        worker.render(SCENES[0], -1)
    assert worker.render(SCENES[0], 0).png


@pytest.mark.parametrize("device", [Device.HIP, Device.METAL, Device.ONEAPI])
def test_a_device_that_is_not_there_is_an_error(device):
    with (
        pytest.raises(DeviceMissingError, match=rf"device {device.value} is not available.*choose from cpu"),
        _worker(replace(SMALL, device=device)),
    ):
        pass


def test_auto_says_what_it_took():
    worker = WorkerProcess(Program.find(), replace(SMALL, device=Device.AUTO))
    about = worker.greet()
    worker.close()
    assert about.device in set(Device) - {Device.AUTO}
    assert about.python == ".".join(map(str, sys.version_info[:3]))
    assert about.blender.startswith(("4.5", "5.2"))


def test_a_blender_executable_renders_too(tmp_path, worker):
    executable = tmp_path / "blender"
    executable.write_text(
        '#!/bin/sh\nif [ "$1" = --version ]; then echo "Blender 4.5.0"; exit; fi\n'
        'echo "Read prefs: nowhere"; while [ "$1" != --python ]; do shift; done\n'
        f'cd / && exec "{sys.executable}" "$2"\n'  # as Blender does: the script alone, with no package around it
    )
    executable.chmod(0o755)
    with _worker(SMALL, Program.find(executable)) as other:
        assert other.render(SCENES[0], 4).png == worker.render(SCENES[0], 4).png


def test_a_python_without_bpy_says_so(tmp_path):
    bare = tmp_path / "python"
    bare.write_text(
        f'#!/bin/sh\nif [ "$1" = --version ]; then echo "Python 3.11.0"; exit; fi\nexec "{sys.executable}" -S "$@"\n'
    )
    bare.chmod(0o755)
    with (
        pytest.raises(BlenderMissingError, match=r"bpy is not installed in this Python.*--blender PATH"),
        Pool(SMALL, 1, blender=bare),
    ):
        pass
