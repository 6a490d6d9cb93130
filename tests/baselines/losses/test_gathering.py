"""Two gloo processes against one process that holds the joined batch."""

import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as mp

from baselines.losses import an_info_nce, delta_info_nce, gather_batch, info_nce

LOSSES = {
    "info_nce": (info_nce, {"temperature": 0.3}),
    "delta_info_nce": (delta_info_nce, {"p": 3}),
    "an_info_nce": (an_info_nce, {"precision": [1.0, 2.0, 3.0]}),
}
WAYS = [{"negatives": "anchors"}, {"negatives": "both", "symmetric": True}]


def batch():
    generator = torch.Generator().manual_seed(0)
    return torch.randn(2, 8, 3, generator=generator, dtype=torch.float64)


def gradients(z, z_pos, name, way, **options):
    z, z_pos = z.clone().requires_grad_(), z_pos.clone().requires_grad_()
    loss, arguments = LOSSES[name]
    value = loss(z, z_pos, **arguments, **way, **options)
    value.backward()
    return [value.detach(), z.grad, z_pos.grad]


def one_of_two(rank, folder):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/rendezvous", rank=rank, world_size=2)
    rows = slice(4 * rank, 4 * rank + 4)
    z, z_pos = batch()[:, rows]
    results = [gradients(z, z_pos, name, way, across_processes=True) for name in LOSSES for way in WAYS]
    torch.save([results, gather_batch(z)], f"{folder}/{rank}.pt")
    dist.destroy_process_group()


@pytest.mark.slow
def test_two_processes_are_one_with_the_joined_batch(tmp_path):
    mp.spawn(one_of_two, args=(str(tmp_path),), nprocs=2)
    (first, joined), (second, again) = (torch.load(tmp_path / f"{rank}.pt") for rank in (0, 1))
    assert torch.equal(joined, batch()[0])
    assert torch.equal(again, joined)
    cases = [(name, way) for name in LOSSES for way in WAYS]
    for (name, way), ours, theirs in zip(cases, first, second, strict=True):
        value, *expected = gradients(*batch(), name, way)
        torch.testing.assert_close((ours[0] + theirs[0]) / 2, value)
        for view in (1, 2):
            # Gradients are averaged over processes, as DistributedDataParallel does with those of parameters.
            torch.testing.assert_close(torch.cat([ours[view], theirs[view]]) / 2, expected[view - 1])


def test_one_process_gathers_nothing():
    z = torch.zeros(3, 2)
    assert gather_batch(z) is z
    assert torch.equal(info_nce(*batch(), across_processes=True), info_nce(*batch()))
