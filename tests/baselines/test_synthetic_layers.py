import pytest
import torch
from torch.nn import functional as F

from baselines.synthetic import networks as layers
from baselines.synthetic.networks import stacked_layer


def inputs(runs, rows=9, fan_in=5, fan_out=7):
    generator = torch.Generator().manual_seed(0)
    shapes = [(runs, rows, fan_in), (runs, fan_in, fan_out), (runs, 1, fan_out)]
    return [torch.randn(shape, generator=generator).requires_grad_() for shape in shapes]


@pytest.mark.parametrize("onednn", [True, False] if layers._has_onednn() else [False])
@pytest.mark.parametrize("slope", [1.0, 0.01])
@pytest.mark.parametrize("runs", [1, 3])
def test_each_run_is_a_linear_layer_values_and_gradients(runs, slope, onednn, monkeypatch):
    monkeypatch.setattr(layers, "_has_onednn", lambda: onednn)
    given = inputs(runs)
    out = stacked_layer(*given, slope)
    target = torch.randn(out.shape, generator=torch.Generator().manual_seed(1))
    gradients = torch.autograd.grad((out * target).sum(), given)
    for run in range(runs):
        x, weight, bias = (tensor[run].detach().double().requires_grad_() for tensor in given)
        exact = F.leaky_relu(F.linear(x, weight.T, bias[0]), slope)
        torch.testing.assert_close(out[run], exact.float(), rtol=1e-5, atol=1e-5)
        slopes = torch.autograd.grad((exact * target[run]).sum(), (x, weight, bias))
        for found, expected in zip(gradients, slopes, strict=True):
            torch.testing.assert_close(found[run], expected.float(), rtol=1e-5, atol=1e-5)


def test_observations_need_no_gradient():
    x, weight, bias = inputs(2)
    stacked_layer(x.detach(), weight, bias, 0.01).sum().backward()
    assert x.grad is None
    assert weight.grad.shape == weight.shape


def test_bfloat16_stays_bfloat16():
    given = [tensor.detach().bfloat16() for tensor in inputs(2)]
    assert stacked_layer(*given, 0.01).dtype == torch.bfloat16
