import pytest
import torch
from torch import nn

from baselines.encoders.networks import MLPEncoder
from baselines.synthetic.networks import StackedEncoder
from ident3d.spaces import Box, Sphere, Unbounded


def plain_encoder(stacked: StackedEncoder, run: int, space) -> MLPEncoder:
    plain = MLPEncoder(space)
    linear = [layer for layer in plain.layers if isinstance(layer, nn.Linear)]
    with torch.no_grad():
        for layer, weight, bias in zip(linear, stacked.weights, stacked.biases, strict=True):
            layer.weight.copy_(weight[run].T)
            layer.bias.copy_(bias[run, 0])
    plain.output.load_state_dict(stacked.outputs[run].state_dict())
    return plain


def observations(runs=2, rows=16, dim=3):
    return torch.randn(runs, rows, dim, generator=torch.Generator().manual_seed(0))


def test_it_has_the_widths_of_appendix_a3():
    encoder = StackedEncoder((0,), 10, "unbounded")
    assert [weight.shape[2] for weight in encoder.weights] == [100, 500, 500, 500, 500, 100, 10]


@pytest.mark.parametrize(("name", "space"), [("sphere", Sphere(3)), ("box", Box(3, 0, 1)), ("unbounded", Unbounded(3))])
def test_each_run_is_a_plain_encoder_values_and_gradients(name, space):
    stacked, x = StackedEncoder((0, 1), 3, name), observations()
    for output in stacked.outputs.parameters():
        output.data.add_(0.3)
    target = torch.randn(2, 16, 3, generator=torch.Generator().manual_seed(1))
    (stacked(x) * target).sum().backward()
    for run in range(2):
        plain = plain_encoder(stacked, run, space)
        out = plain(x[run])
        torch.testing.assert_close(stacked(x)[run], out)
        (out * target[run]).sum().backward()
        torch.testing.assert_close(stacked.weights[2].grad[run].T, plain.layers[4].weight.grad)
        torch.testing.assert_close(stacked.biases[0].grad[run, 0], plain.layers[0].bias.grad)
        for ours, theirs in zip(stacked.outputs[run].parameters(), plain.output.parameters(), strict=True):
            assert (ours.grad is None) == (theirs.grad is None)
            if ours.grad is not None:
                torch.testing.assert_close(ours.grad, theirs.grad)


def test_a_run_starts_from_the_same_weights_alone_and_side_by_side():
    x = observations()
    both, alone = StackedEncoder((4, 9), 3, "sphere"), StackedEncoder((9,), 3, "sphere")
    torch.testing.assert_close(both(x)[1:], alone(x[1:]))


def test_a_run_starts_as_torchs_linear_layers_do():
    weight = StackedEncoder((0,), 4, "unbounded").weights[2]
    bound = 200**-0.5
    assert weight.abs().max() <= bound
    assert weight.std().item() == pytest.approx(bound / 3**0.5, rel=0.02)


def test_bfloat16_hidden_layers_come_near_float32_ones():
    x = observations()
    exact, rounded = (
        StackedEncoder((0, 1), 3, "unbounded", hidden_type=kind)(x) for kind in (torch.float32, torch.bfloat16)
    )
    assert rounded.dtype == torch.float32
    torch.testing.assert_close(rounded, exact, atol=0.01, rtol=0.05)


def test_hes_initialisation_keeps_the_spread_and_torchs_loses_it():
    x = observations(rows=500)
    spread = {
        name: StackedEncoder((0, 1), 3, "unbounded", initialisation=name)(x).std(1).mean() for name in ("he", "torch")
    }
    assert 0.4 < spread["he"] < 1.6
    assert spread["torch"] < 0.02
