import pytest
import torch

from baselines.losses import AnInfoNCE, delta_info_nce, info_nce
from baselines.synthetic.experiments import (
    Experiment,
    GenerativeProcess,
    LearnedAnisotropic,
    Power,
    VonMisesFisherModel,
)
from ident3d.conditionals import VonMisesFisher
from ident3d.marginals import Marginal
from ident3d.randomness import torch_generator
from ident3d.spaces import Sphere, Unbounded


def test_positives_stand_in_the_conditional_of_their_anchors():
    process = GenerativeProcess(Sphere(10), Marginal(), VonMisesFisher(10.0))
    anchors, positives = process.pairs(20_000, torch_generator(0, "test")).unbind(1)
    assert (anchors * positives).sum(-1).mean().item() == pytest.approx(0.6336684, abs=0.005)


def test_a_process_refuses_laws_that_its_space_does_not_have():
    with pytest.raises(ValueError, match="not defined on"):
        GenerativeProcess(Unbounded(3), Marginal(), VonMisesFisher(1.0))


def test_objectives_are_the_papers_losses():
    z, z_pos = (torch.randn(8, 3, generator=torch.Generator().manual_seed(seed)) for seed in (0, 1))
    torch.testing.assert_close(VonMisesFisherModel(4.0).loss(3)(z, z_pos), info_nce(z, z_pos, temperature=0.25))
    torch.testing.assert_close(Power(3).loss(3)(z, z_pos), delta_info_nce(z, z_pos, p=3))
    learned = LearnedAnisotropic(2.0).loss(3)
    assert isinstance(learned, AnInfoNCE)
    torch.testing.assert_close(learned.precision.detach(), torch.full((3,), 2.0))
    assert [Power(p).label for p in (1, 2, 3)] == ["Laplace", "Normal", "GenNorm(β=3)"]


def test_an_experiment_without_objective_is_supervised():
    process = GenerativeProcess(Sphere(3), Marginal(), VonMisesFisher(1.0))
    assert Experiment(process, "sphere", None).description.endswith("supervised")
