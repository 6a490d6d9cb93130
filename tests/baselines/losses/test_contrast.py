import math

import pytest
import torch
from torch.nn import functional as F

from baselines.losses import an_info_nce, delta_info_nce, info_nce

PRECISION = (3.0, 0.5, 1.0, 8.0)
LOSSES = {
    "info_nce": (info_nce, {"temperature": 0.7}, lambda a, b: -(a * b).sum() / 0.7),
    "p1": (delta_info_nce, {"p": 1, "temperature": 0.7}, lambda a, b: (a - b).abs().sum() / 0.7),
    "p1.5": (delta_info_nce, {"p": 1.5}, lambda a, b: (a - b).abs().pow(1.5).sum()),
    "p2": (delta_info_nce, {"p": 2, "temperature": 0.7}, lambda a, b: (a - b).square().sum() / 0.7),
    "p3": (delta_info_nce, {"p": 3, "temperature": 0.7}, lambda a, b: (a - b).abs().pow(3).sum() / 0.7),
    "p4": (delta_info_nce, {"p": 4}, lambda a, b: (a - b).pow(4).sum()),
    "metric1": (delta_info_nce, {"p": 1, "metric": True}, lambda a, b: (a - b).abs().sum()),
    "metric2": (
        delta_info_nce,
        {"p": 2, "metric": True, "temperature": 0.7},
        lambda a, b: (a - b).square().sum().sqrt() / 0.7,
    ),
    "metric3": (delta_info_nce, {"p": 3, "metric": True}, lambda a, b: (a - b).abs().pow(3).sum() ** (1 / 3)),
    "an_info_nce": (
        an_info_nce,
        {"precision": PRECISION},
        lambda a, b: (torch.tensor(PRECISION, dtype=a.dtype) * (a - b).square()).sum(),
    ),
}


def embeddings(*shapes, seed=0, dtype=torch.float64):
    generator = torch.Generator().manual_seed(seed)
    return [F.normalize(torch.randn(*s, 4, generator=generator, dtype=dtype), dim=-1).requires_grad_() for s in shapes]


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("symmetric", [False, True])
@pytest.mark.parametrize("negatives", ["anchors", "positives", "both", (7,), (5, 3)], ids=str)
def test_values_and_gradients_equal_a_slow_double_loop(slow_loss, name, negatives, symmetric):
    loss, arguments, cost = LOSSES[name]
    given = not isinstance(negatives, str)
    inputs = embeddings((5,), (5,), *([negatives] if given else []))
    options = {"symmetric": symmetric} if given else {"symmetric": symmetric, "negatives": negatives}
    fast = loss(*inputs, **arguments, **options, reduction="none")
    slow = slow_loss(cost, *inputs, **options)
    torch.testing.assert_close(fast, slow, rtol=1e-12, atol=1e-13)
    weights = torch.linspace(0.5, 2, 5, dtype=torch.float64)
    for ours, expected in zip(
        torch.autograd.grad((fast * weights).sum(), inputs),
        torch.autograd.grad((slow * weights).sum(), inputs),
        strict=True,
    ):
        torch.testing.assert_close(ours, expected, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("name", LOSSES)
def test_the_mean_is_the_mean_of_the_items(name):
    loss, arguments, _ = LOSSES[name]
    inputs = embeddings((6,), (6,))
    torch.testing.assert_close(loss(*inputs, **arguments), loss(*inputs, **arguments, reduction="none").mean())


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("case", ["hot", "large", "identical", "zero"])
@pytest.mark.parametrize("symmetric", [False, True])
def test_values_and_gradients_stay_finite(name, case, symmetric):
    loss, arguments, _ = LOSSES[name]
    z, z_pos = (tensor.detach().float() for tensor in embeddings((8,), (8,)))
    if case == "hot" and "temperature" in arguments:
        arguments = arguments | {"temperature": 0.01}
    if case == "large":
        z, z_pos = 200 * z, 200 * z_pos
    if case == "identical":
        z = z_pos = z[:1].expand(8, 4).clone()
    if case == "zero":
        z, z_pos = torch.zeros(8, 4), torch.zeros(8, 4)
    z, z_pos = z.clone().requires_grad_(), z_pos.clone().requires_grad_()
    value = loss(z, z_pos, **arguments, symmetric=symmetric, negatives="both")
    value.backward()
    assert value.isfinite()
    assert z.grad.isfinite().all()
    assert z_pos.grad.isfinite().all()
    if case in {"identical", "zero"}:  # nothing tells the positive from 2 * 7 negatives
        assert value.item() == pytest.approx(math.log(15), rel=1e-5)


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_autocast_computes_the_loss_in_single_precision(name, dtype):
    loss, arguments, _ = LOSSES[name]
    z, z_pos = (2 * tensor.detach().float() for tensor in embeddings((8,), (8,)))
    head = torch.nn.Linear(4, 4, bias=False)
    with torch.autocast("cpu", dtype=dtype):
        low, low_pos = head(z), head(z_pos)
        assert low.dtype == dtype
        value = loss(low, low_pos, **arguments)
        value.backward()
    assert value.dtype == torch.float32
    torch.testing.assert_close(value, loss(low.float(), low_pos.float(), **arguments))
    assert head.weight.grad.isfinite().all()


@pytest.mark.parametrize("name", LOSSES)
def test_any_length_of_batch_works_down_to_two(name):
    loss, arguments, _ = LOSSES[name]
    for length in (2, 3, 17):
        assert loss(*embeddings((length,), (length,)), **arguments).isfinite()


@pytest.mark.parametrize("name", LOSSES)
def test_a_batch_of_one_says_why_not(name):
    loss, arguments, _ = LOSSES[name]
    z, z_pos, z_neg = embeddings((1,), (1,), (3,))
    with pytest.raises(ValueError, match=r"a batch of one pair .* give z_neg"):
        loss(z, z_pos, **arguments)
    assert loss(z, z_pos, z_neg, **arguments).isfinite()


def test_a_learned_temperature_gets_its_gradient():
    z, z_pos = embeddings((5,), (5,))
    for loss in (info_nce, delta_info_nce):
        temperature = torch.tensor(0.4, dtype=torch.float64, requires_grad=True)
        loss(z, z_pos, temperature=temperature).backward()
        step = 1e-6
        slope = (loss(z, z_pos, temperature=0.4 + step) - loss(z, z_pos, temperature=0.4 - step)) / (2 * step)
        assert temperature.grad.item() == pytest.approx(slope.item(), rel=1e-6)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"temperature": 0.0}, "expected a positive, finite temperature, not 0"),
        ({"temperature": math.nan}, "finite temperature, not nan"),
        ({"temperature": torch.ones(2)}, "one number"),
        ({"negatives": "all"}, "unknown negatives 'all'; choose from anchors, positives, both"),
        ({"reduction": "sum"}, "unknown reduction 'sum'; choose from mean, none"),
        ({"z_pos": torch.zeros(4, 4)}, r"same shape .* \(5, 4\) and \(4, 4\)"),
        ({"z_neg": torch.zeros(4, 3)}, r"\(M, 4\), shared by all anchors, or \(5, M, 4\)"),
        ({"z_neg": torch.zeros(4, 2, 4)}, r"not \(4, 2, 4\)"),
        ({"z_neg": torch.zeros(0, 4)}, "M of at least 1"),
    ],
)
def test_bad_input_is_refused(arguments, message):
    z, z_pos = embeddings((5,), (5,))
    with pytest.raises(ValueError, match=message):
        info_nce(z, arguments.pop("z_pos", z_pos), **arguments)


def test_integers_and_unknown_options_are_refused():
    z, z_pos = embeddings((5,), (5,))
    with pytest.raises(TypeError, match=r"z must hold floating-point embeddings, not torch\.int64"):
        info_nce(torch.zeros(5, 4, dtype=torch.int64), z_pos)
    with pytest.raises(TypeError, match=r"unknown options \['symetric'\]"):
        info_nce(z, z_pos, symetric=True)
