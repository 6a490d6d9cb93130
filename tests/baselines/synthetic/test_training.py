from contextlib import contextmanager
from copy import deepcopy
from dataclasses import replace

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from baselines.losses import InfoNCE
from baselines.synthetic.networks import MixingNetwork, StackedEncoder
from baselines.synthetic.studies.aninfonce import aninfonce
from baselines.synthetic.studies.tables import table1, table2
from baselines.synthetic.training import (
    PAPER,
    PAPER_ANINFONCE,
    QUICK,
    QUICK_ANINFONCE,
    Budget,
    PairPools,
    Runs,
    TrainingProgress,
    parse_budget,
    train,
)
from ident3d.errors import Ident3DError

CPU = torch.device("cpu")
TINY = replace(QUICK, dim=2, batch=32, steps=12, evaluations=3, hidden_precision="float32")


def sphere_row(dim=2):
    return table1(dim)[1].experiment


def test_the_paper_budget_is_appendix_a3():
    assert (PAPER.dim, PAPER.batch, PAPER.steps, PAPER.learning_rate) == (10, 6144, 300_000, 1e-4)
    assert PAPER.scalar_learning_rate == PAPER.learning_rate  # the box's size is a parameter like any other
    assert PAPER.rate(0.0) == PAPER.rate(0.999) == 1.0
    assert PAPER.hidden_type(CPU) is torch.float32


def test_a_number_of_seconds_is_a_budget():
    budget = parse_budget("90")
    assert (budget.seconds, budget.steps, budget.dim, budget.name) == (90.0, None, 10, "90s")
    assert parse_budget("quick") is QUICK
    assert parse_budget("quick", learns_precision=True) is QUICK_ANINFONCE
    assert parse_budget("paper") is PAPER
    assert parse_budget("paper", learns_precision=True) is PAPER_ANINFONCE
    assert parse_budget("90", learns_precision=True).scalar_learning_rate == QUICK_ANINFONCE.scalar_learning_rate
    with pytest.raises(ValueError, match="paper, quick or a number of seconds"):
        parse_budget("slow")
    with pytest.raises(ValueError, match="positive"):
        parse_budget("-3")


def test_a_decaying_rate_rises_and_falls():
    rates = [QUICK.rate(share) for share in (0.0, 0.02, 0.5, 1.0)]
    assert rates[0] < 0.01
    assert rates[1] > 0.99
    assert rates[2] == pytest.approx(0.5)
    assert rates[3] == pytest.approx(0.0)


@pytest.mark.parametrize("change", [{"dim": 1}, {"batch": 1}, {"seconds": 1.0}, {"learning_rate": 0.0}])
def test_impossible_budgets_are_refused(change):
    with pytest.raises(ValueError, match="budget"):
        replace(QUICK, **change)


def test_a_pool_is_the_same_for_a_run_alone_and_side_by_side():
    both, alone = (PairPools(sphere_row(), seeds, 8, 4, CPU) for seeds in ((3, 1), (1,)))
    for step in (0, 5, 2):
        assert torch.equal(both.batch_of(step)[1:], alone.batch_of(step))
    assert not torch.equal(both.batch_of(0), both.batch_of(4))
    assert both.batch_of(0).shape == (2, 2, 8, 2)


def test_supervised_runs_are_given_anchors_alone():
    pools = PairPools(table1(2)[0].supervised_experiment, (0,), 8, 4, CPU)
    assert pools.batch_of(0).shape == (1, 1, 8, 2)


def test_one_step_is_one_step_of_adam_on_each_runs_own_loss():
    experiment, seeds = sphere_row(), (0, 1)
    runs = Runs(experiment, seeds, TINY, CPU)
    latents = PairPools(experiment, seeds, 32, 1, CPU).batch_of(0)
    runs.step(latents, 0.5)
    for run, seed in enumerate(seeds):
        encoder = StackedEncoder((seed,), 2, "sphere", initialisation=TINY.initialisation)
        optimiser = torch.optim.Adam(encoder.parameters(), lr=0.5 * TINY.learning_rate)
        z, z_pos = encoder(MixingNetwork((seed,), 2)(latents[run].view(1, -1, 2)))[0].chunk(2)
        InfoNCE()(z, z_pos).backward()
        optimiser.step()
        for stacked, own in zip(runs.encoder.weights, encoder.weights, strict=True):
            torch.testing.assert_close(stacked[run : run + 1], own, atol=1e-5, rtol=1e-4)


def test_a_run_is_the_same_alone_and_side_by_side():
    both, alone = (train(sphere_row(), seeds, TINY, CPU) for seeds in ((0, 1), (1,)))
    assert both[-1].r2[1] == pytest.approx(alone[-1].r2[0], abs=1e-3)
    assert both[-1].loss[1] == pytest.approx(alone[-1].loss[0], abs=1e-4)


def test_runs_are_scored_at_the_start_at_the_end_and_between():
    history = train(sphere_row(), (0,), TINY, CPU)
    assert [scores.step for scores in history] == [0, 4, 8, 12]


def test_a_budget_of_seconds_ends():
    history = train(sphere_row(), (0,), replace(TINY, steps=None, seconds=0.3), CPU)
    assert history[-1].seconds >= 0.3
    assert history[-1].step > 0


class InterruptionError(Exception):
    """Stands for the end of a process."""


def test_an_interrupted_training_goes_on_where_it_was(tmp_path, monkeypatch):
    experiment = aninfonce(2)[0].experiment
    straight = train(experiment, (0, 1), TINY, CPU)

    def step(self, latents, rate, plain=Runs.step):
        if self.taken == 7:
            raise InterruptionError
        self.taken += 1
        plain(self, latents, rate)

    monkeypatch.setattr("baselines.synthetic.training._SAVE_SECONDS", 0.0)
    monkeypatch.setattr(Runs, "taken", 0, raising=False)
    with monkeypatch.context() as patch:
        patch.setattr(Runs, "step", step)
        with pytest.raises(InterruptionError):
            train(experiment, (0, 1), TINY, CPU, checkpoint=tmp_path / "run.pt")
    resumed = train(experiment, (0, 1), TINY, CPU, checkpoint=tmp_path / "run.pt")
    assert [scores.step for scores in resumed] == [0, 4, 8, 12]
    assert resumed[-1].precision is not None
    assert resumed[-1].precision[1] == pytest.approx(straight[-1].precision[1], abs=1e-5)
    assert resumed[-1].r2[0] == pytest.approx(straight[-1].r2[0], abs=1e-3)


def test_a_checkpoint_of_the_first_form_is_resumed(tmp_path, monkeypatch):
    """There all state stood under one name, without a checksum, and a look was counted and not located."""
    straight = train(sphere_row(), (0,), TINY, CPU, checkpoint=tmp_path / "new.pt")
    held = torch.load(tmp_path / "new.pt", weights_only=True)
    progress = {**held["progress"], "looked": 3}
    torch.save(
        {"identity": held["identity"], "state": {"runs": held["runs"], "progress": progress}}, tmp_path / "old.pt"
    )
    monkeypatch.setattr(Runs, "step", None)
    read = train(sphere_row(), (0,), TINY, CPU, checkpoint=tmp_path / "old.pt")
    assert [scores.to_json() for scores in read] == [scores.to_json() for scores in straight]


def test_a_checkpoint_with_a_flipped_bit_is_refused(tmp_path):
    path = tmp_path / "run.pt"
    train(sphere_row(), (0,), TINY, CPU, checkpoint=path)
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    with pytest.raises(Ident3DError, match="is damaged"):
        train(sphere_row(), (0,), TINY, CPU, checkpoint=path)


def test_a_finished_training_is_only_read(tmp_path, monkeypatch):
    first = train(sphere_row(), (0,), TINY, CPU, checkpoint=tmp_path / "run.pt")
    monkeypatch.setattr(Runs, "step", None)
    again = train(sphere_row(), (0,), TINY, CPU, checkpoint=tmp_path / "run.pt")
    assert [scores.step for scores in again] == [scores.step for scores in first]


def test_a_checkpoint_of_another_training_is_refused(tmp_path):
    train(sphere_row(), (0,), TINY, CPU, checkpoint=tmp_path / "run.pt")
    with pytest.raises(Ident3DError, match="another training"):
        train(sphere_row(), (1,), TINY, CPU, checkpoint=tmp_path / "run.pt")


def test_seeds_must_differ():
    for seeds in ((), (1, 1)):
        with pytest.raises(ValueError, match="all different"):
            train(sphere_row(), seeds, TINY, CPU)


def test_a_loss_that_is_none_of_ours_is_refused_before_training():
    class Plain:
        label = "plain"

        def loss(self, dim):
            return torch.nn.MSELoss()

    with pytest.raises(TypeError, match=r"the loss of plain is a MSELoss; derive it from baselines\.losses\.Loss"):
        train(replace(sphere_row(), objective=Plain()), (0,), TINY, CPU)


def test_a_diverged_run_is_named_as_such():
    with pytest.raises(Ident3DError, match="diverged before step"):
        train(table2(2)[1].experiment, (0,), replace(TINY, learning_rate=1e12, decay=False), CPU)


def test_progress_does_not_count_the_time_between_sessions():
    budget = Budget(**{**vars(TINY), "steps": None, "seconds": 10.0})
    progress = TrainingProgress(budget)
    progress.load({"step": 5, "seconds": 4.0, "history": [], "looked": 0})
    assert progress.schedule.share(progress.position) == pytest.approx(0.4, abs=0.05)
    assert progress.step == 5


def test_a_limit_is_a_beginning_of_the_papers_budget():
    budget = PAPER.limited(3600)
    assert (budget.name, budget.seconds, budget.steps) == ("paper-3600s", 3600, None)
    assert replace(budget, name="paper", steps=PAPER.steps, seconds=None, evaluations=100) == PAPER
    with pytest.raises(ValueError, match="already ends after 90 seconds"):
        parse_budget("90").limited(10)
    with pytest.raises(ValueError, match="positive"):
        PAPER.limited(0)


def test_a_training_goes_on_where_it_did_not_begin():
    """A CUDA optimiser's state holds learning rates as tensors, and says that it may be captured."""
    experiment, pairs = sphere_row(), PairPools(sphere_row(), (0, 1), 32, 1, CPU)
    straight, moved = Runs(experiment, (0, 1), TINY, CPU), Runs(experiment, (0, 1), TINY, CPU)
    straight.step(pairs.batch_of(0), 1.0)
    state = deepcopy(straight.state())
    for group in state["optimiser"]["param_groups"]:
        group.update(lr=torch.tensor(group["lr"]), capturable=True)
    moved.load(state)
    for runs in (straight, moved):
        runs.step(pairs.batch_of(1), 0.5)
    assert moved.last_losses() == straight.last_losses()
    for ours, theirs in zip(moved.encoder.parameters(), straight.encoder.parameters(), strict=True):
        assert torch.equal(ours, theirs)


OBJECTIVES = {
    "InfoNCE": sphere_row(),
    "supervised": table1(2)[0].supervised_experiment,
    "p = 1 in the box": table2(2)[0].experiment,
    "p = 2": table1(2)[4].experiment,
    "p = 3": table2(2)[6].experiment,
    "AnInfoNCE": aninfonce(2)[0].experiment,
}


@pytest.mark.parametrize("name", OBJECTIVES)
def test_a_step_never_asks_the_device_for_a_number(name):
    """What would make a CUDA graph's capture fail, or a step wait: reading a number, or bringing one over."""
    asked: list[str] = []
    waits = {"aten::_local_scalar_dense", "aten::nonzero", "aten::equal", "aten::masked_select", "aten::lift_fresh"}

    class Watch(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            if func.name().split(".")[0] in waits:
                asked.append(func.name())
            return func(*args, **(kwargs or {}))

    experiment = OBJECTIVES[name]
    runs, pairs = Runs(experiment, (0, 1), TINY, CPU), PairPools(experiment, (0, 1), 32, 1, CPU)
    first, second = pairs.batch_of(0), pairs.batch_of(1)
    runs.step(first, 1.0)
    with Watch():
        runs.step(second, 1.0)
        assert asked == []
        bool(torch.ones(1))
    assert asked  # the watch can see one


class Recorder:
    """Stands for CUDA's streams and graphs, and keeps what the runs do with them."""

    def __init__(self):
        self.events = []

    def Stream(self):  # noqa: N802 - torch's name
        return self

    current_stream = Stream

    def wait_stream(self, other):
        self.events.append("wait")

    @contextmanager
    def stream(self, side):
        yield

    def CUDAGraph(self):  # noqa: N802 - torch's name
        return self

    @contextmanager
    def graph(self, graph):
        self.events.append("capture")
        yield
        self.events.append("captured")

    def replay(self):
        self.events.append("replay")


def test_a_cuda_device_warms_up_captures_once_and_replays_the_given_latents(monkeypatch):
    recorder, held = Recorder(), []
    for name in ("Stream", "current_stream", "stream", "CUDAGraph", "graph"):
        monkeypatch.setattr(torch.cuda, name, getattr(recorder, name))
    runs = Runs(sphere_row(), (0,), TINY, CPU)
    runs.device = torch.device("cuda")

    def train_on(latents):
        held.append(latents)
        recorder.events.append("train")

    runs._train_on = runs._step = train_on
    batches = [torch.full((1, 2, 4, 2), float(step)) for step in range(6)]
    for batch in batches:
        runs.step(batch, 1.0)
    eager = ["wait", "train", "wait"]
    assert recorder.events == [*eager * 3, "capture", "train", "captured", "replay", "replay", "replay"]
    # A graph reads its input where it lay at the capture: the last batch was brought there.
    assert torch.equal(held[3], batches[5])
    assert all(torch.equal(seen, batch) for seen, batch in zip(held[:3], batches[:3], strict=True))


@pytest.mark.slow
def test_infonce_inverts_a_process_that_matches_its_assumptions():
    budget = replace(QUICK, dim=3, batch=256, steps=400)
    assert min(train(sphere_row(3), (0,), budget, CPU)[-1].mean("r2")) > 0.95


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("experiment", [table1(4)[0].experiment, table2(4)[1].experiment, aninfonce(4)[0].experiment])
def test_a_captured_step_trains_like_an_eager_one(experiment, monkeypatch):
    device = torch.device("cuda")
    budget = replace(QUICK, batch=256, steps=20, hidden_precision="float32")
    captured = train(experiment, (0, 1), budget, device)
    monkeypatch.setattr("baselines.synthetic.training._WARM_UP_STEPS", 10**9)
    eager = train(experiment, (0, 1), budget, device)
    assert captured[-1].loss == pytest.approx(eager[-1].loss, rel=1e-2)
    assert captured[-1].r2[0] == pytest.approx(eager[-1].r2[0], abs=0.02)
