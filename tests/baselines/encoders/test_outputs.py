import pytest
import torch
from torch import nn

from baselines.encoders import BoxOutput, SphereOutput, output_for
from ident3d import Box, Sphere, Unbounded

FAR = torch.tensor([[-50.0, -50.0, 50.0], [0.0, 50.0, -50.0]])


@pytest.mark.parametrize(("low", "high"), [(-1, 1), (0, 1), (2, 10)])
def test_a_box_output_covers_the_box_that_is_asked_for(low, high):
    output = BoxOutput(Box(3, low, high))
    middle = (low + high) / 2
    torch.testing.assert_close(output(FAR), torch.tensor([[low, low, high], [middle, high, low]]).float())


def test_a_box_grows_by_its_learned_size():
    output = BoxOutput(Box(3, 0, 1))
    assert output.log_size.requires_grad
    with torch.no_grad():
        output.log_size.copy_(torch.tensor([1.0, 2.0, 4.0]).log())
    torch.testing.assert_close(output(FAR[:1]), torch.tensor([[0.0, -0.5, 2.5]]))
    assert not BoxOutput(Box(3), learn_size=False).log_size.requires_grad


def test_a_sphere_output_has_its_radius():
    output = SphereOutput(Sphere(3, 2.5))
    torch.testing.assert_close(output(FAR).norm(dim=1), torch.tensor([2.5, 2.5]))
    assert not output.log_radius.requires_grad
    assert SphereOutput(Sphere(3), learn_radius=True).log_radius.requires_grad


def test_a_zero_vector_has_a_finite_gradient_on_the_sphere():
    raw = torch.zeros(2, 3, requires_grad=True)
    SphereOutput(Sphere(3))(raw).sum().backward()
    assert raw.grad.isfinite().all()


def test_the_paper_learns_the_box_and_not_the_sphere():
    assert isinstance(output_for(Unbounded(3)), nn.Identity)
    assert [p.requires_grad for p in output_for(Box(3)).parameters()] == [True]
    assert [p.requires_grad for p in output_for(Sphere(3)).parameters()] == [False]
    assert [p.requires_grad for p in output_for(Sphere(3), learn_scale=True).parameters()] == [True]
    with pytest.raises(TypeError, match="Unbounded, Box, Sphere, not 'box'"):
        output_for("box")
