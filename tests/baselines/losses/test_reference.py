"""Values and gradients of the authors' published code, stored in losses_reference.npz."""

from pathlib import Path

import numpy as np
import pytest
import torch

from baselines.losses import an_info_nce, delta_info_nce, info_nce

REFERENCE = np.load(Path(__file__).parent.parent / "data" / "losses_reference.npz")


def tensor(name):
    return torch.tensor(REFERENCE[name])


@pytest.mark.parametrize(
    ("name", "loss", "arguments", "inputs"),
    [
        ("info_nce_tau0.1", info_nce, {"temperature": 0.1}, "sphere"),
        ("info_nce_tau1", info_nce, {"temperature": 1}, "sphere"),
        ("delta_info_nce_p1_tau1", delta_info_nce, {"p": 1}, "box"),
        ("delta_info_nce_p2_tau0.1", delta_info_nce, {"p": 2, "temperature": 0.1}, "box"),
        ("delta_info_nce_p2_tau1", delta_info_nce, {"p": 2}, "box"),
        ("delta_info_nce_p3_tau1", delta_info_nce, {"p": 3}, "box"),
    ],
)
def test_the_published_values_and_gradients(name, loss, arguments, inputs):
    batch = [tensor(f"{inputs}__{view}").requires_grad_() for view in ("z", "z_pos", "z_neg")]
    items = loss(*batch, **arguments, reduction="none")
    torch.testing.assert_close(items, tensor(f"{name}__per_item"), rtol=1e-12, atol=1e-14)
    for view, gradient in zip(("z", "z_pos", "z_neg"), torch.autograd.grad(items.mean(), batch), strict=True):
        torch.testing.assert_close(gradient, tensor(f"{name}__grad_{view}"), rtol=1e-10, atol=1e-14)


def test_an_info_nce_is_the_published_one_with_both_directions_and_half_the_lambda():
    loss = an_info_nce(
        tensor("sphere__z"),
        tensor("sphere__z_pos"),
        precision=tensor("lambda_rand") / 2,
        negatives="both",
        symmetric=True,
    )
    assert loss.item() == pytest.approx(0.08351415345578297, rel=1e-12)
