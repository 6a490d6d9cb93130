import pytest
import torch
from torch import nn

from baselines.synthetic.encoder import StackedEncoder


def linear_chain(encoder: StackedEncoder, run: int) -> nn.Sequential:
    layers: list[nn.Module] = []
    for weight, bias in zip(encoder.weights, encoder.biases, strict=True):
        layer = nn.Linear(weight.shape[1], weight.shape[2])
        with torch.no_grad():
            layer.weight.copy_(weight[run].T)
            layer.bias.copy_(bias[run, 0])
        layers += [layer, nn.LeakyReLU()]
    return nn.Sequential(*layers[:-1])


def observations(runs=2, rows=16, dim=3):
    return torch.randn(runs, rows, dim, generator=torch.Generator().manual_seed(0))


def test_it_has_the_widths_of_appendix_a3():
    encoder = StackedEncoder((0,), 10, "unbounded")
    assert [weight.shape[2] for weight in encoder.weights] == [100, 500, 500, 500, 500, 100, 10]


def test_each_run_is_a_plain_perceptron_values_and_gradients():
    encoder, x = StackedEncoder((0, 1), 3, "unbounded"), observations()
    encoder(x).square().sum().backward()
    for run in range(2):
        chain = linear_chain(encoder, run)
        out = chain(x[run])
        torch.testing.assert_close(encoder(x)[run], out)
        out.square().sum().backward()
        torch.testing.assert_close(encoder.weights[2].grad[run].T, chain[4].weight.grad)
        torch.testing.assert_close(encoder.biases[0].grad[run, 0], chain[0].bias.grad)


def test_a_run_starts_from_the_same_weights_alone_and_side_by_side():
    x = observations()
    both, alone = StackedEncoder((4, 9), 3, "sphere"), StackedEncoder((9,), 3, "sphere")
    torch.testing.assert_close(both(x)[1:], alone(x[1:]))


def test_a_run_starts_as_torchs_linear_layers_do():
    weight = StackedEncoder((0,), 4, "unbounded").weights[2]
    bound = 200**-0.5
    assert weight.abs().max() <= bound
    assert weight.std().item() == pytest.approx(bound / 3**0.5, rel=0.02)


def test_the_sphere_has_radius_one_whatever_the_gain():
    norms = StackedEncoder((0, 1), 3, "sphere", gain=10.0)(observations()).norm(dim=-1)
    torch.testing.assert_close(norms, torch.ones(2, 16))


def test_the_box_has_a_learned_magnitude_that_starts_at_one():
    encoder, x = StackedEncoder((0, 1), 3, "box"), observations()
    free = StackedEncoder((0, 1), 3, "unbounded")
    assert encoder.magnitude is not None
    torch.testing.assert_close(encoder(x), torch.sigmoid(free(x)))
    encoder.magnitude.data.mul_(7)
    torch.testing.assert_close(encoder(x), 7 * torch.sigmoid(free(x)))
    encoder(x).sum().backward()
    assert encoder.magnitude.grad.abs().min() > 0


def test_the_gain_multiplies_unbounded_embeddings():
    x = observations()
    torch.testing.assert_close(
        StackedEncoder((0, 1), 3, "unbounded", gain=10.0)(x), 10 * StackedEncoder((0, 1), 3, "unbounded")(x)
    )


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
