import re
from dataclasses import replace
from pathlib import Path

import pytest
import torch

import baselines.synthetic
from baselines.synthetic import QUICK, training
from ident3d.randomness import torch_generator

GUIDE = Path(baselines.synthetic.__file__).parent / "README.md"
BLOCKS = re.findall(r"```python\n(.*?)```", GUIDE.read_text(encoding="utf-8"), re.DOTALL)
PROGRAMS = [block for block in BLOCKS if "import" in block]
TINY = replace(QUICK, name="tiny", dim=2, batch=32, steps=4, evaluations=2, hidden_precision="float32")


@pytest.fixture
def run(monkeypatch, tmp_path, capsys):
    """Run a program of the guide, in a small budget and a folder of its own; return its names and its output."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(baselines.synthetic, "QUICK", TINY)
    monkeypatch.setitem(training._NAMED, "quick", (TINY, TINY))

    def run_program(text):
        names = {"__name__": "__main__"}
        exec(compile(text, str(GUIDE), "exec"), names)  # noqa: S102 - the guide's own programs
        return names, capsys.readouterr().out

    return run_program


def test_the_short_program_prints_scores_of_every_run(run):
    _, out = run(PROGRAMS[0])
    assert len(re.findall(r"0\.\d+", out)) == 6


def test_a_study_of_ones_own_is_shown_as_one_of_the_papers(run, tmp_path):
    names, out = run(PROGRAMS[1])
    (line,) = [line for line in out.splitlines() if line.startswith("| 1 ")]
    assert "Ball, UniformBall, Pulled | Unbounded, alignment + uniformity" in line
    assert {path.name for path in (tmp_path / "results").iterdir()} == {
        "mine.json",
        "mine.md",
        "mine_convergence.svg",
    }
    ball, pulled, generator = names["Ball"](3), names["Pulled"](0.2), torch_generator(0, "test")
    z = ball.uniform(20_000, generator)
    assert (z.norm(dim=1) ** 3).mean().item() == pytest.approx(0.5, abs=0.01)  # the share of the volume is uniform
    z_pos = pulled.sample(z, ball, generator)
    assert (z_pos - 0.8 * z).norm(dim=1).max() <= 0.2
    # A ball of radius 0.2 in three dimensions.
    expected = -torch.tensor(4 / 3 * torch.pi * 0.2**3).log()
    torch.testing.assert_close(pulled.log_prob(z_pos, z, ball), expected.double().expand(len(z)), atol=1e-6, rtol=0)


def test_the_optimum_of_row_12_is_what_the_guide_says(run):
    _, out = run(PROGRAMS[2])
    assert [float(number) for number in out.split()] == [pytest.approx(0.915, abs=0.001), pytest.approx(1.0, abs=0.001)]
