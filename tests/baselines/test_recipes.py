from dataclasses import replace

import pytest

from baselines.recipes import CONTENT_FACTORS, RECIPES, SPHERE_FACTORS, find_recipe
from baselines.training.objective import build_loss
from ident3d import FACTORS, AnisotropicNormal, Box, Sphere
from ident3d.conditionals import Laplace, Normal, parse
from ident3d.spaces import FactorSpace


def test_table_4_and_the_topline_are_there_with_what_the_paper_reports():
    reported = {name: recipe.reported_r2 for name, recipe in RECIPES.items() if recipe.reported_r2 is not None}
    assert reported == {
        "infonce-box": 96.73,
        "infonce-unbounded": 96.43,
        "infonce-laplace": 96.87,
        "infonce-sphere": 65.74,
        "simclr": 45.51,
        "supervised": 98.67,
    }


STORED = [recipe for recipe in RECIPES.values() if recipe.pairs != "live"]


@pytest.mark.parametrize("recipe", STORED, ids=lambda recipe: recipe.name)
def test_every_recipe_on_stored_images_has_the_papers_numbers_and_a_conditional_of_the_box(recipe):
    assert (recipe.learning_rate, recipe.steps, recipe.batch_size, recipe.encoder) == (1e-4, 200_000, 512, "resnet18")
    assert RECIPES[recipe.name] is recipe
    if recipe.conditional is not None:
        parse(recipe.conditional, FACTORS).check(Box(10))


def test_the_conditionals_are_those_of_the_rows():
    assert parse(RECIPES["infonce-box"].conditional) == Normal(0.1)
    assert parse(RECIPES["infonce-laplace"].conditional) == Laplace(0.1)
    widths = [0.1 if name in CONTENT_FACTORS else 0.5 for name in FACTORS.names]
    assert sorted(widths) == [0.1] * 5 + [0.5] * 5
    for name in ("aninfonce-box", "infonce-box-isotropic"):
        assert parse(RECIPES[name].conditional, FACTORS) == Normal(widths)
        assert RECIPES[name].match_in_own_metric
        assert RECIPES[f"{name}-exact"].pairs == "rendered"


def test_the_two_recipes_on_a_sphere_differ_in_the_number_of_scales_alone():
    anisotropic, isotropic = RECIPES["aninfonce-sphere"], RECIPES["infonce-sphere-isotropic"]
    assert replace(isotropic, name="", title="", loss_options={}) == replace(anisotropic, name="", title="")
    factors = FactorSpace(Sphere(4), tuple(SPHERE_FACTORS)).own
    assert parse(anisotropic.conditional, factors) == AnisotropicNormal((12.5, 12.5, 1.5, 1.5))
    learned = [sum(p.numel() for p in build_loss(recipe, 4).parameters()) for recipe in (anisotropic, isotropic)]
    assert learned == [4, 1]


def test_an_unknown_recipe_is_answered_with_the_list():
    with pytest.raises(ValueError, match=r"unknown recipe 'infonce'; .*choose from infonce-box, .*, supervised"):
        find_recipe("infonce")


@pytest.mark.parametrize(
    ("name", "changes", "message"),
    [
        ("infonce-box", {"conditional": None}, "matched pairs are drawn from a conditional"),
        ("simclr", {"conditional": "normal(sigma=0.1)"}, "augmented images have no conditional"),
        (
            "infonce-box",
            {"loss": "supervised"},
            "the loss supervised takes single images, and matched",
        ),
        ("infonce-box", {"learning_rate": 0.0}, "learning rate is positive, not 0"),
        ("infonce-box", {"steps": 0}, "not 0 of 512"),
    ],
)
def test_parts_that_do_not_fit_are_refused(name, changes, message):
    with pytest.raises(ValueError, match=message):
        replace(RECIPES[name], **changes)


def test_the_rows_of_table_4_have_the_temperature_of_the_published_code():
    rows = [recipe for recipe in RECIPES.values() if recipe.reported_r2 is not None]
    assert {recipe.temperature for recipe in rows} == {1.0}
    assert len(rows) == 6
    assert {recipe.temperature for recipe in RECIPES.values() if recipe not in rows} == {0.1}
