"""What has to hold on a GPU, on the simulated device; ``test_simulated_device.py`` runs it in a process of its own."""

import itertools
from dataclasses import replace
from functools import partial

import pytest
import torch
from torch import nn

from baselines.losses import (
    LOSSES,
    AnInfoNCE,
    DeltaInfoNCE,
    an_info_nce,
    delta_info_nce,
    info_nce,
    supervised_mse,
)
from baselines.pairs import SingleImages
from baselines.recipes import RECIPES
from baselines.synthetic import training as synthetic
from baselines.synthetic.studies.aninfonce import aninfonce
from baselines.synthetic.studies.tables import table1, table2
from baselines.training.checkpoint import Checkpoint
from baselines.training.evaluation import evaluate
from baselines.training.loop import Trainer
from baselines.training.objective import TrainedModel, build_encoder, build_loss, build_optimiser
from baselines.training.options import Intervals
from baselines.training.placement import Placement
from baselines.training.progress import Schedule
from ident3d import (
    AugmentedPairs,
    Box,
    PairIndex,
    PositivePairs,
    RenderedPairs,
    Sphere,
    Unbounded,
    metrics,
    sample_latents,
)
from ident3d.conditionals import (
    AnisotropicNormal,
    GeneralizedNormal,
    Laplace,
    Normal,
    Product,
    Uniform,
    VonMisesFisher,
)
from ident3d.marginals import Marginal
from ident3d.matching.index import BACKENDS
from ident3d.randomness import torch_generator
from tests.ident3d.pairs.images import NumberedImages
from tests.simulated_device import backend

backend.install()
DEVICE = torch.device(backend.DEVICE)
CPU = torch.device("cpu")


@pytest.fixture
def waits():
    """How often the CPU has waited for the device since the test began."""
    backend.waits.clear()
    return backend.waits


def on_cpu(tensor):
    return tensor.detach().to("cpu")


# The device itself


def test_the_device_refuses_what_a_gpu_refuses():
    x = torch.ones(3, device=DEVICE)
    with pytest.raises(backend.MixedDevicesError, match=r"add\.Tensor got tensors on cpu, simulated:0"):
        x + torch.ones(3)
    assert on_cpu(x + torch.tensor(1.0)).tolist() == [2, 2, 2]


def test_the_device_counts_what_a_gpu_waits_for(waits):
    x = torch.arange(3, device=DEVICE)
    mask = x > 0
    assert not waits
    for waiting in (
        lambda: x.sum().item(),
        lambda: bool(mask.all()),
        lambda: x[mask],
        mask.nonzero,
        lambda: x[torch.tensor([0, 1])],
        x.cpu,
        x.tolist,
    ):
        waits.clear()
        waiting()
        assert waits
    waits.clear()
    torch.ones(3).to(DEVICE, non_blocking=True)
    assert not waits


# Losses


def embeddings(n=24, dim=3):
    z = torch.randn(n, dim, generator=torch_generator(0, "test/z"))
    return z, z + 0.1 * torch.randn(n, dim, generator=torch_generator(0, "test/z_pos"))


LOSS_FUNCTIONS = {
    "info_nce": info_nce,
    "delta_info_nce p=1": partial(delta_info_nce, p=1),
    "delta_info_nce p=2": delta_info_nce,
    "delta_info_nce p=3": partial(delta_info_nce, p=3),
    "delta_info_nce p=2.5": partial(delta_info_nce, p=2.5),
    "delta_info_nce metric": partial(delta_info_nce, p=3, metric=True),
    "an_info_nce": partial(an_info_nce, precision=(0.5, 1.0, 2.0)),
}
OPTIONS = [{}, {"negatives": "positives"}, {"negatives": "both", "symmetric": True}, {"reduction": "none"}]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("name", LOSS_FUNCTIONS)
def test_losses_are_those_of_the_cpu_and_wait_for_nothing(name, options, waits):
    found = {}
    for device in (CPU, DEVICE):
        z, z_pos = (t.to(device).requires_grad_() for t in embeddings())
        waits.clear()
        value = LOSS_FUNCTIONS[name](z, z_pos, **options)
        value.sum().backward()
        assert set(waits) <= {"aten::_to_copy: a blocking copy"} if "an_" in name else not waits
        found[device] = [on_cpu(t) for t in (value, z.grad, z_pos.grad)]
    for own, expected in zip(found[DEVICE], found[CPU], strict=True):
        assert torch.equal(own, expected)


@pytest.mark.parametrize("shape", [(5, 3), (24, 5, 3)])
@pytest.mark.parametrize("name", LOSS_FUNCTIONS)
def test_given_negatives_are_those_of_the_cpu(name, shape):
    negatives = torch.randn(shape, generator=torch_generator(0, "test/negatives"))
    values = []
    for device in (CPU, DEVICE):
        z, z_pos = (t.to(device) for t in embeddings())
        values.append(on_cpu(LOSS_FUNCTIONS[name](z, z_pos, negatives.to(device))))
    assert torch.equal(*values)


def test_every_loss_of_the_registry_trains_there(waits):
    built = {name: build_loss(replace(RECIPES["infonce-box"], loss=name), 3) for name in LOSSES if name != "supervised"}
    built |= {"metric": DeltaInfoNCE(3, metric=True), "fixed": AnInfoNCE(3, (1.0, 2.0, 3.0), negatives="both")}
    for name, loss in built.items():
        z, z_pos = (t.to(DEVICE) for t in embeddings())
        loss.to(DEVICE)
        waits.clear()
        loss(z.requires_grad_(), z_pos).backward()
        assert not waits, (name, waits)
    z, z_pos = (t.to(DEVICE) for t in embeddings())
    waits.clear()
    supervised_mse(z, z_pos)
    assert not waits


# Conditionals and spaces


CASES = [
    (conditional, space)
    for conditional, spaces in {
        Normal(0.3): (Box(4), Unbounded(4)),
        Normal((0.1, 0.2, 0.3, 0.4)): (Box(4), Unbounded(4)),
        Laplace(0.3): (Box(4), Unbounded(4)),
        GeneralizedNormal(3, 0.4): (Box(4), Unbounded(4)),
        GeneralizedNormal(1.5, (0.1, 0.2, 0.3, 0.4)): (Box(4), Unbounded(4)),
        Uniform(): (Box(4), Sphere(4)),
        VonMisesFisher(10): (Sphere(4),),
        AnisotropicNormal((2, 3, 4, 5)): (Sphere(4), Box(4), Unbounded(4)),
        Product({(0,): Normal(0.1), (1, 2): Uniform(), (3,): Laplace(0.2)}): (Box(4),),
    }.items()
    for space in spaces
]


@pytest.mark.parametrize(("conditional", "space"), CASES, ids=str)
def test_conditionals_draw_there_what_they_draw_on_the_cpu(conditional, space):
    found = []
    for device in (CPU, DEVICE):
        generator = torch_generator(0, "test/conditional", device=device)
        marginal = Marginal(Normal(1.0)) if isinstance(space, Unbounded) else Marginal()
        z = marginal.sample(64, space, generator)
        assert z.device == (CPU if device == CPU else z.device)
        assert z.device.type == device.type
        z_pos = conditional.sample(z, space, generator)
        density = conditional.log_prob(z_pos, z, space)
        assert z_pos.device.type == density.device.type == device.type
        found.append([on_cpu(t) for t in (z, z_pos, density)])
    for own, expected in zip(found[1], found[0], strict=True):
        assert torch.equal(own, expected)


# Matching and pairs


IMAGES = NumberedImages(300, pairs=True)


def test_matching_there_is_matching_on_the_cpu():
    queries = torch.from_numpy(sample_latents(50, seed=5))
    exclude = torch.arange(50)
    expected = PairIndex(IMAGES.latents, "torch").match(queries, exclude)
    index = PairIndex(IMAGES.latents, "torch", device=DEVICE)
    for given, own in ((queries, exclude), (queries.to(DEVICE), exclude.to(DEVICE))):
        found = index.match(given, own)
        assert found[0].device.type == given.device.type
        assert all(torch.equal(on_cpu(a), b) for a, b in zip(found, expected, strict=True))
    assert index.holds(IMAGES.latents)
    assert "torch" in BACKENDS


def streams():
    index = PairIndex(IMAGES.latents, "torch", device=DEVICE)
    return {
        "matched there": PositivePairs(IMAGES, Normal(0.1), 16, 3, index),
        "matched on the CPU": PositivePairs(IMAGES, Normal(0.1), 16, 3),
        "rendered": RenderedPairs(IMAGES, 16, 3),
        "single": SingleImages(IMAGES, 16, 3, None),
        "augmented": AugmentedPairs(IMAGES, 16, 3),
    }


@pytest.mark.parametrize("name", streams())
def test_batches_there_are_those_of_the_cpu(name):
    stream = streams()[name]
    there = stream.on_device(DEVICE)
    for own, expected in itertools.islice(zip(there, stream, strict=False), 3):
        for field in ("x", "x_pos", "z", "z_pos", "ids", "ids_pos"):
            assert getattr(own, field).device == DEVICE
            assert torch.equal(on_cpu(getattr(own, field)), getattr(expected, field)), field


def test_processes_cannot_share_an_index_there():
    with pytest.raises(ValueError, match="the index searches on simulated:0, which processes cannot share: use num_w"):
        streams()["matched there"].loader(2)


def test_an_epoch_there_has_its_length():
    there = streams()["matched there"].on_device(DEVICE)
    assert [batch.number for batch in there.epoch(1, steps=3)] == [3, 4, 5]


@pytest.mark.parametrize("name", [name for name in streams() if name != "matched on the CPU"])
def test_batches_wait_for_nothing(name, waits):
    batches = iter(streams()[name].on_device(DEVICE))
    next(batches)
    waits.clear()
    for _ in range(5):
        next(batches)
    assert not waits


def test_a_batch_with_ties_is_matched_again():
    images = NumberedImages(300)
    images.latents[::2] = 0.5
    images.latents[::2, 0] = torch.linspace(0.4, 0.4001, 150).round(decimals=4)  # many images at few points
    images.latents[1::2] = images.latents[1]
    images.latents[1::2, 3] = torch.where(torch.arange(150) % 2 == 0, -0.9, 0.9)
    stream = PositivePairs(images, Normal(0.3), 32, 1)
    there = PositivePairs(images, Normal(0.3), 32, 1, PairIndex(images.latents, "torch", device=DEVICE))
    for own, expected in itertools.islice(zip(there.on_device(DEVICE), stream, strict=False), 3):
        assert torch.equal(on_cpu(own.ids_pos), expected.ids_pos)
        assert torch.equal(on_cpu(own.z_pos), expected.z_pos)


def test_augmented_views_there_are_those_of_the_cpu():
    stream = AugmentedPairs(NumberedImages(64, size=16), 16, 3)
    own, expected = stream.on_device(DEVICE).batch(1), stream.batch(1)
    assert own.x.device == DEVICE
    assert torch.equal(on_cpu(own.x), expected.x)
    assert torch.equal(on_cpu(own.x_pos), expected.x_pos)


# Training


def small_encoder(dim):
    body = nn.Sequential(nn.Conv2d(3, 4, 3, stride=2), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.LazyLinear(dim))
    body(torch.zeros(2, 3, 8, 8))
    generator = torch_generator(0, "test/encoder")
    with torch.no_grad():
        for parameter in body.parameters():
            parameter.copy_(0.3 * torch.randn(parameter.shape, generator=generator))
        body[1].running_mean.zero_()
        body[1].running_var.fill_(1)
        body[1].num_batches_tracked.zero_()
    return body


class Last:
    def __init__(self):
        self.metrics = {}

    def write(self, step, metrics):
        self.metrics |= metrics


SCHEDULE = Schedule(6, Intervals(log_every=3, evaluate_every=6, checkpoint_every=3))


def trainer_of(recipe, folder, device, encoder=None):
    encoder = small_encoder(10) if encoder is None else encoder
    model = TrainedModel(encoder, build_loss(recipe, 10))
    model.to(device)
    return Trainer(model, build_optimiser(model, recipe), Placement(device), folder / "checkpoint.pt")


KINDS = {"matched": "matched there", "live": "matched there"}


@pytest.mark.parametrize("name", [name for name in RECIPES if not name.endswith("-exact")])
def test_training_there_is_training_on_the_cpu(name, tmp_path):
    recipe = replace(RECIPES[name], batch_size=16, learning_rate=1e-2)
    stream = streams()[KINDS.get(recipe.pairs, recipe.pairs)]
    found = {}
    for device in (CPU, DEVICE):
        folder = tmp_path / device.type
        trainer, last = trainer_of(recipe, folder, device), Last()
        trainer.train(iter(stream.on_device(device)), SCHEDULE, last, dict)
        held = Checkpoint.read(folder / "checkpoint.pt")
        found[device] = last.metrics["loss"], held
    assert found[DEVICE][0] == found[CPU][0]
    for key, tensor in found[CPU][1].encoder.items():
        assert torch.equal(found[DEVICE][1].encoder[key], tensor), key


@pytest.mark.parametrize("resumed", [False, True])
def test_a_step_waits_for_nothing(resumed, tmp_path, waits):
    recipe = replace(RECIPES["aninfonce-box"], batch_size=16)
    batch = streams()["matched there"].on_device(DEVICE).batch(0)
    trainer = trainer_of(recipe, tmp_path, DEVICE)
    if resumed:
        trainer.train(itertools.repeat(batch), replace(SCHEDULE, length=3), Last(), dict)
        trainer = trainer_of(recipe, tmp_path, DEVICE)
        trainer.resume()
        assert trainer.step == 3
    counts = []
    trainer.optimiser.register_step_post_hook(lambda *_: counts.append(sum(waits.values())))
    steps = trainer.step + 20
    trainer.train(itertools.repeat(batch), Schedule(steps, Intervals(steps, steps, steps)), Last(), dict)
    assert len(counts) == 20
    assert counts[-1] == counts[5]  # the first five are timed, which is waited for twice


def test_a_resumed_run_is_the_run_in_one_piece(tmp_path):
    recipe = replace(RECIPES["aninfonce-box"], batch_size=16, learning_rate=1e-2)
    stream = streams()["matched there"].on_device(DEVICE)
    for folder, ends in ((tmp_path / "whole", (6,)), (tmp_path / "parts", (2, 4, 6))):
        for end in ends:
            trainer = trainer_of(recipe, folder, DEVICE)
            trainer.resume()
            trainer.train(iter(stream.from_step(trainer.step)), replace(SCHEDULE, length=end), Last(), dict)
    whole, parts = (Checkpoint.read(tmp_path / name / "checkpoint.pt") for name in ("whole", "parts"))
    assert all(torch.equal(parts.encoder[key], tensor) for key, tensor in whole.encoder.items())
    for number, state in whole.optimiser["state"].items():
        assert all(torch.equal(parts.optimiser["state"][number][key], value) for key, value in state.items())


def test_an_optimiser_that_is_resumed_counts_its_steps_on_the_cpu(tmp_path):
    recipe = replace(RECIPES["infonce-box"], batch_size=16)
    stream = streams()["matched there"].on_device(DEVICE)
    trainer_of(recipe, tmp_path, DEVICE).train(iter(stream), replace(SCHEDULE, length=2), Last(), dict)
    trainer = trainer_of(recipe, tmp_path, DEVICE)
    trainer.resume()
    for state in trainer.optimiser.state.values():
        assert state["step"].device == CPU
        assert state["exp_avg"].device == DEVICE


def test_the_encoders_of_the_paper_run_there():
    recipe = RECIPES["infonce-box"]
    images = torch.rand(4, 3, 32, 32, generator=torch_generator(0, "test/images"))
    for space in ("box", "sphere", "unbounded"):
        encoder = build_encoder(replace(recipe, space=space), 10, 32, seed=0)
        expected = encoder(images)
        encoder = build_encoder(replace(recipe, space=space), 10, 32, seed=0).to(DEVICE)
        assert torch.equal(on_cpu(encoder(images.to(DEVICE))), on_cpu(expected))


# Scores


class Part:
    """What evaluation needs of a part of a dataset."""

    def __init__(self, data):
        self.latents, self.factors, self.pixels = data.latents, data.factors, data.pixels
        self.rows = torch.arange(len(data))

    def __len__(self):
        return len(self.rows)


def test_evaluation_there_is_evaluation_on_the_cpu():
    scores = [evaluate(small_encoder(10).to(device).eval(), Part(IMAGES), device) for device in (CPU, DEVICE)]
    assert scores[0] == scores[1]


def test_metrics_take_tensors_of_the_device():
    latents = torch.from_numpy(sample_latents(200))
    noise = torch.randn(200, 10, generator=torch_generator(0, "test/noise"))
    embedded = latents @ torch.randn(10, 10, generator=torch_generator(0, "test/map")) + noise
    for function in (metrics.affine_r2, metrics.mcc):
        assert function(latents.to(DEVICE), embedded.to(DEVICE)) == function(latents, embedded)
    expected, found = metrics.score(latents, embedded), metrics.score(latents.to(DEVICE), embedded.to(DEVICE))
    assert found.to_json() == expected.to_json()


# The studies without images


TINY = replace(
    synthetic.QUICK, dim=2, batch=16, steps=4, evaluations=2, hidden_precision="float32", scalar_learning_rate=1e-3
)


@pytest.mark.parametrize(
    "experiment",
    [row.experiment for row in (*table1(2), *table2(2))] + [case.experiment for case in aninfonce(2)],
    ids=lambda experiment: f"{experiment.process} {experiment.model_label}"[:80],
)
def test_synthetic_studies_train_there(experiment):
    losses = []
    for device in (CPU, DEVICE):
        runs = synthetic.Runs(experiment, (0, 1), TINY, device)
        pairs = synthetic.PairPools(experiment, (0, 1), 16, 4, device)
        for step in range(3):
            runs.step(pairs.batch_of(step), 1.0)
        losses.append((runs.last_losses(), runs.scores()))
    assert losses[0] == losses[1]
