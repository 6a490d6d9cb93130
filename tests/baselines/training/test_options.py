"""Options as runs write them now, and as they wrote them before options came in groups."""

import json
from dataclasses import replace

import pytest

from baselines.recipes import RECIPES, read_recipe
from baselines.training.options import Hardware, Images, Intervals, TrainingOptions, read_options
from ident3d.codec import to_json

OLD = """{
 "recipe": {
  "name": "infonce-box", "title": "Table 4, row 1: normal pairs, box, p = 2; the assumptions hold",
  "loss": "delta_info_nce", "space": "box", "conditional": "normal(sigma=0.1)", "pairs": "matched",
  "match_in_own_metric": false, "p": 2, "temperature": 0.1, "negatives": "anchors", "symmetric": false,
  "learn_scale": null, "initial_precision": 10.0, "depth": 18, "learning_rate": 0.0001, "loss_learning_rate": 0.001,
  "steps": 200000, "batch_size": 512, "reported_r2": 96.73
 },
 "seed": 7, "validation": 100, "device": "cpu", "precision": "float32", "compiled": true, "resident": "never",
 "workers": 2, "log_every": 5, "evaluate_every": 10, "checkpoint_every": 20
}"""
NOW = TrainingOptions(
    seed=7,
    images=Images(validation=100, resident="never", workers=2),
    hardware=Hardware(device="cpu", precision="float32", compile=True),
    intervals=Intervals(log_every=5, evaluate_every=10, checkpoint_every=20),
)


def test_what_a_run_writes_is_read():
    assert read_options({"recipe": {}, **to_json(NOW)}) == NOW
    assert read_options(to_json(TrainingOptions())) == TrainingOptions()
    for recipe in RECIPES.values():
        assert read_recipe(to_json(recipe)) == recipe


def test_what_runs_wrote_before_options_came_in_groups_is_read():
    held = json.loads(OLD)
    assert read_options(held) == NOW
    assert read_recipe(held["recipe"]) == replace(RECIPES["infonce-box"], temperature=0.1)  # what it had then
    assert read_recipe(held["recipe"] | {"depth": 50}).encoder == "resnet50"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"seed": "7"}, r"options\.seed: expected an integer"),
        ({"images": {"validation": 10, "resident": "mostly"}}, r"options\.images\.resident"),
        ({"hardware": {"gpu": 1}}, r"options\.hardware\.gpu"),
    ],
)
def test_what_is_wrong_is_named(change, message):
    with pytest.raises(ValueError, match=message):
        read_options(to_json(NOW) | change)
