import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

from baselines.encoders.networks import MLPEncoder
from baselines.synthetic import networks
from baselines.synthetic.networks import (
    MixingNetwork,
    StackedEncoder,
    condition_numbers,
    draw_weights,
    stacked_layer,
)
from baselines.synthetic.studies.tables import table1
from baselines.synthetic.training import score_observations
from ident3d.randomness import torch_generator
from ident3d.spaces import Box, Sphere, Unbounded


def test_the_columns_have_length_one():
    weights = draw_weights(5, seed=0, candidates=50)
    assert weights.shape == (3, 5, 5)
    torch.testing.assert_close(weights.norm(dim=1), torch.ones(3, 5, dtype=torch.float64))


def test_each_layer_is_the_best_conditioned_of_the_candidates():
    weights = draw_weights(4, seed=3, candidates=200)
    for layer in range(3):
        generator = torch_generator(3, "synthetic/mixing", layer)
        drawn = (torch.rand(200, 4, 4, dtype=torch.float64, generator=generator) * 2 - 1).numpy()
        drawn /= np.sqrt((drawn**2).sum(1, keepdims=True))
        best = min(drawn, key=np.linalg.cond)
        np.testing.assert_allclose(weights[layer], best)


def test_the_published_law_draws_until_a_layer_is_as_good_as_the_best_of_the_candidates():
    weights = draw_weights(4, seed=3, candidates=200, law="published")
    torch.testing.assert_close(weights.norm(dim=2), torch.ones(3, 4, dtype=torch.float64))  # columns of W in W z
    for ours, published in zip(condition_numbers(draw_weights(4, 3, 200)), condition_numbers(weights), strict=True):
        assert published <= ours
    network = MixingNetwork((0,), 2, law="published")
    assert not torch.equal(network.weights, MixingNetwork((0,), 2).weights)


def test_an_unknown_law_is_refused():
    with pytest.raises(ValueError, match="unknown mixing law 'worst'; choose from best, published"):
        draw_weights(4, seed=0, law="worst")


def test_condition_numbers_are_those_of_numpy():
    matrices = torch.randn(20, 6, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    np.testing.assert_allclose(condition_numbers(matrices), [np.linalg.cond(m) for m in matrices.numpy()], rtol=1e-6)


def test_a_singular_matrix_has_no_small_condition_number():
    assert condition_numbers(torch.zeros(1, 3, 3, dtype=torch.float64)).item() > 1e6


def test_the_network_is_the_plain_loop():
    z = torch.rand(2, 7, 3, generator=torch.Generator().manual_seed(0))
    mixed = MixingNetwork((0, 1), 3)(z)
    for run, seed in enumerate((0, 1)):
        first, second, third = draw_weights(3, seed).float()
        by_hand = F.leaky_relu(F.leaky_relu(z[run] @ first, 0.2) @ second, 0.2) @ third
        torch.testing.assert_close(mixed[run], by_hand)


def test_the_network_is_inverted():
    z = 2 * torch.rand(2, 100, 10, generator=torch.Generator().manual_seed(0)) - 1
    network = MixingNetwork((0, 5), 10)
    torch.testing.assert_close(network.invert(network(z)).float(), z, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("number", [1, 5, 9, 11, 12])
def test_observations_score_what_the_paper_reports_for_the_identity_model(number):
    row = table1()[number - 1]
    scores = score_observations(row.experiment, range(3)).mean("r2")
    # With a nonlinearity after the last map the scores would be 51 to 55.
    assert 100 * np.mean(scores) == pytest.approx(row.identity.mean, abs=6)


def test_bad_sizes_are_refused():
    with pytest.raises(ValueError, match="dim >= 1"):
        draw_weights(0, seed=0)


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


def inputs(runs, rows=9, fan_in=5, fan_out=7):
    generator = torch.Generator().manual_seed(0)
    shapes = [(runs, rows, fan_in), (runs, fan_in, fan_out), (runs, 1, fan_out)]
    return [torch.randn(shape, generator=generator).requires_grad_() for shape in shapes]


@pytest.mark.parametrize("onednn", [True, False] if networks._has_onednn() else [False])
@pytest.mark.parametrize("slope", [1.0, 0.01])
@pytest.mark.parametrize("runs", [1, 3])
def test_each_run_is_a_linear_layer_values_and_gradients(runs, slope, onednn, monkeypatch):
    monkeypatch.setattr(networks, "_has_onednn", lambda: onednn)
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
