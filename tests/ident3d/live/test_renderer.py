"""Images of the live renderer beside Blender's, beside the slow ray caster's, and beside each other."""

import pickle
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

import ident3d.live.renderer
from ident3d.factors import Factors
from ident3d.latents import sample_latents
from ident3d.live import QUALITIES, LiveRenderer, UnsupportedWorldError, render
from ident3d.scene.templates import HueMap
from ident3d.scene.world import World
from tests.ident3d.live import oracle

REFERENCE = Path(__file__).parents[2] / "render" / "data" / "reference"


@pytest.fixture(scope="module")
def standard():
    return LiveRenderer(64, "cpu")


def _image(path):
    with Image.open(path) as image:
        return np.asarray(image.convert("RGB"))


def _psnr_of(images, folder, name):
    pairs = zip(images.permute(0, 2, 3, 1).numpy(), sorted(folder.glob(name)), strict=True)
    return [oracle.psnr(image, _image(path)) for image, path in pairs]


def test_images_are_those_of_cycles():
    images = LiveRenderer(224, "cpu").render(np.load(REFERENCE / "raw_latents.npy"))
    psnr = _psnr_of(images, REFERENCE, "???.png")
    assert len(psnr) == 8
    assert np.mean(psnr) >= 48
    assert min(psnr) >= 45


def test_images_of_the_published_hue_map_are_those_of_cycles():
    world = World().with_hue_map(HueMap.PUBLISHED)
    images = LiveRenderer(224, "cpu", world).render(np.load(REFERENCE / "published" / "raw_latents.npy"))
    psnr = _psnr_of(images, REFERENCE / "published", "???.png")
    assert len(psnr) == 4
    assert np.mean(psnr) >= 47
    assert min(psnr) >= 44


@pytest.mark.parametrize(("grid", "mean", "least"), [(2, 39, 36), (3, 43.5, 41), (4, 46.5, 43), (8, 51, 48)])
def test_images_are_those_of_the_slow_ray_caster(grid, mean, least):
    images = render(oracle.latents(), 64, "cpu", grid=grid)
    psnr = _psnr_of(images, oracle.DATA, "oracle-?.png")
    assert len(psnr) == oracle.ROWS
    assert np.mean(psnr) >= mean
    assert min(psnr) >= least


def test_an_image_depends_on_its_latents_alone(standard):
    latents = sample_latents(standard.images_at_once + 3, seed=5)
    together = standard.render(latents)
    assert torch.equal(standard.render(latents), together)
    for row in (0, 1, standard.images_at_once, len(latents) - 1):
        assert torch.equal(standard.render(latents[row : row + 1])[0], together[row])
    assert torch.equal(LiveRenderer(64, "cpu", memory=1).render(latents[:5]), together[:5])
    assert torch.equal(standard.render(torch.from_numpy(latents).double()), together)


def test_images_are_bytes_with_channels_last_in_memory(standard):
    images = standard.render(sample_latents(3))
    assert images.shape == (3, 3, 64, 64)
    assert images.dtype == torch.uint8
    assert images.is_contiguous(memory_format=torch.channels_last)
    assert standard.render(sample_latents(0)).shape == (0, 3, 64, 64)


def test_batches_are_split_into_what_the_memory_holds(standard):
    assert LiveRenderer(64, "cpu", memory=5 * standard.bytes_per_image).images_at_once == 5
    assert LiveRenderer(64, "cpu", memory=1).images_at_once == 1


def test_qualities_are_grids():
    latents = sample_latents(1)
    for name, grid in QUALITIES.items():
        assert torch.equal(render(latents, 16, "cpu", grid=name), render(latents, 16, "cpu", grid=grid))
    assert not torch.equal(render(latents, 16, "cpu", grid="draft"), render(latents, 16, "cpu", grid="fine"))


def test_a_renderer_travels_by_pickle(standard):
    latents = sample_latents(2)
    copy = pickle.loads(pickle.dumps(standard))  # noqa: S301 - our own bytes
    assert torch.equal(copy.render(latents), standard.render(latents))


def test_other_ranges_are_other_images_of_the_same_values():
    narrow = tuple(replace(factor, low=factor.low / 2, high=factor.high / 2) for factor in World().factors)
    world = World(factors=Factors(narrow))
    latents = np.float32(0.5) * sample_latents(2)
    np.testing.assert_array_equal(
        render(2 * latents, 32, "cpu", world=world).numpy(), render(latents, 32, "cpu").numpy()
    )


def test_what_an_object_stands_before_is_hidden_and_shaded():
    """The teapot's pixels are its own colour, and the ground darkens under it."""
    latents = np.zeros((2, 10), dtype=np.float32)
    latents[1, 2] = -1.0  # lower: nearer to its shadow
    latents[:, 7] = 0.0  # red
    latents[:, 9] = -0.9
    images = render(latents, 64, "cpu").float()
    middle = images[:, :, 20:30, 28:36].mean(dim=(2, 3))
    assert (middle[0, 0] > middle[0, 2] + 20).item()


@pytest.mark.parametrize(
    ("latents", "message"),
    [
        (np.full((2, 10), 1.5), r"raw latents lie in \[-1, 1\]: row 0, position_x is 1.5"),
        (np.full((1, 10), np.nan), "must be finite: row 0, position_x is nan"),
        (np.zeros((3, 9)), r"shape \(N, 10\)"),
        (np.zeros(10), r"shape \(N, 10\)"),
    ],
)
def test_bad_latents_are_named(standard, latents, message):
    with pytest.raises(ValueError, match=message):
        standard.render(latents)


def test_bad_arguments_are_named():
    with pytest.raises(ValueError, match="the resolution is 1 or larger, not 0"):
        LiveRenderer(0, "cpu")
    with pytest.raises(TypeError, match=r"the resolution 64\.5 is not an integer"):
        LiveRenderer(64.5, "cpu")
    with pytest.raises(ValueError, match=r"take .* GiB, and cpu has .* GiB free"):
        LiveRenderer(60_000, "cpu")
    with pytest.raises(ValueError, match="unknown quality 'best'; choose from draft, standard, fine"):
        LiveRenderer(64, "cpu", grid="best")
    with pytest.raises(ValueError, match="unknown grid 7; choose from 2, 3, 4, 8"):
        LiveRenderer(64, "cpu", grid=7)
    with pytest.raises(ValueError, match="available devices: cpu"):
        LiveRenderer(64, "cuda:77")


def test_a_world_without_the_object_is_refused():
    world = World(
        factors=Factors(tuple(factor for factor in World().factors if factor.name in ("spotlight_hue", "ground_hue"))),
        objects=World().objects[1:],
        lights=(replace(World().lights[2], location=(0.0, 1.0, 9.0), target=(0.0, 0.0, 0.0)),),
    )
    with pytest.raises(UnsupportedWorldError, match="this world has 0 objects and 1 grounds"):
        LiveRenderer(64, "cpu", world)


def test_an_object_at_the_camera_is_refused():
    far = tuple(
        replace(factor, low=-12.0, high=12.0) if factor.group == "position" else factor for factor in World().factors
    )
    latents = np.zeros((2, 10), dtype=np.float32)
    latents[1, [0, 2]] = 8 / 12, 6 / 12
    with pytest.raises(ValueError, match="too near to the camera for the live renderer: row 1 "):
        render(latents, 32, "cpu", world=World(factors=Factors(far)))


def test_without_warp_the_error_names_the_extra():
    code = (
        "import sys; sys.modules['warp'] = None\n"
        "import importlib.util; importlib.util.find_spec = lambda name, *rest: None\n"
        "import ident3d\n"
        "try: ident3d.live.render\n"
        "except ImportError as error: print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "pip install 'ident3d[live]'" in done.stdout


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_cuda_is_within_one_level_of_the_cpu(standard):
    latents = sample_latents(64, seed=9)
    difference = LiveRenderer(64, "cuda").render(latents).cpu().int() - standard.render(latents).int()
    assert difference.abs().max() <= 1


def test_nothing_is_said_where_there_is_no_gpu():
    said = subprocess.run(
        [sys.executable, "-c", "import ident3d; ident3d.live.render([[0.0] * 10], 4, 'cpu')"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert (said.stdout, said.stderr) == ("", "")


def test_the_module_is_loaded_by_name():
    assert ident3d.live.render is render
