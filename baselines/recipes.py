"""Recipes: the papers' experiments on images, by name.

Appendix A.3 of Zimmermann et al. gives Adam, a learning rate of 1e-4, 200,000 steps and the encoder. What it leaves
open was chosen here:

* the scales of the conditionals on 3DIdent: sigma 0.1 and scale 0.1, in units of the raw latents;
* the batch: 512 pairs, as in the published code;
* the temperature: 1 in the rows of Table 4, as in the published code; the paper gives none. On a sphere of fixed radius
  another temperature is another model. In a box of learned size, or unbounded space, only the ratio of their scale to
  the temperature matters, but a scale starts near 1 and changes slowly, so that short runs need --temperature 0.1: on
  the images of the track mini (batch 128, learning rate 1e-3), infonce-box reached R2 0.63 in 500 steps with it, and
  0.48 with 1. It is what a recipe has unless it says otherwise;
* the negatives: the other anchors of the batch, never the anchor itself.

AnInfoNCE was published on other data. What it adds to InfoNCE depends on the space of the embeddings:

* In a box, or in unbounded space, InfoNCE with a size s_k of its own for every coordinate is AnInfoNCE with
  Lambda_k = s_k^2 / temperature: the same function of the encoder's output, with the same gradients. So the comparison
  there is with one size for all coordinates. aninfonce-box and infonce-box-isotropic are such a pair: five of the ten
  factors are content (sigma 0.1) and five style (sigma 0.5); positions, rotations and hues are divided among the two,
  so that neither half is harder to see. The size of the box is fixed, because it and Lambda would be redundant.
* On a sphere a coordinate has no scale of its own, and the two losses differ. aninfonce-sphere and
  infonce-sphere-isotropic are trained on live pairs of four latents on a sphere: two content factors (Lambda 12.5) and
  two style factors (Lambda 1.5), the setting of the theory. --latent-space sphere and --factors name the four, in this
  order: ground_hue spotlight_angle position_y position_z. Both encoders see the same pairs.

In both pairs of recipes "isotropic" is AnInfoNCE with one learned number for Lambda, which is InfoNCE with a learned
temperature, so that nothing differs but the number of scales. Lambda starts at 10 in the box, one over the temperature,
and at 1 on the sphere: from 5, where one style factor was not found.

Your own recipe is a :class:`Recipe`, named as ``package.module:RECIPE``, or by a short name after
``RECIPES.register(recipe.name, recipe)``.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from baselines.losses import BatchNegatives, find_loss
from baselines.pairs import find_source
from ident3d.codec import from_json
from ident3d.registry import Registry

__all__ = [
    "CONTENT_FACTORS",
    "RECIPES",
    "SPHERE_FACTORS",
    "Recipe",
    "SpaceName",
    "find_recipe",
    "parse_arguments",
    "read_recipe",
]

SpaceName = Literal["unbounded", "box", "sphere"]

CONTENT_FACTORS = ("position_x", "position_y", "rotation_x", "spotlight_angle", "object_hue")
"""The factors that vary little within an anisotropic pair; the others are style."""

SPHERE_FACTORS = {"ground_hue": 12.5, "spotlight_angle": 12.5, "position_y": 1.5, "position_z": 1.5}
"""Lambda of the four factors that are latents on a sphere; the first two are content."""

_ON_SPHERE = (
    f"anisotropic_normal(precision={{{', '.join(f'{name}: {number}' for name, number in SPHERE_FACTORS.items())}}})"
)
_ANISOTROPIC = f"normal(sigma={{{', '.join(f'{name}: 0.1' for name in CONTENT_FACTORS)}, rest: 0.5}})"


@dataclass(frozen=True)
class Recipe:
    """What is trained, on which pairs, and how.

    Attributes:
        name: name of the recipe.
        title: description in one line.
        loss: name of the loss in :data:`~baselines.losses.LOSSES`, or ``package.module:Class``.
        space: space of the embeddings.
        conditional: the conditional of the positives as text, see :mod:`ident3d.conditionals.text`; None without one.
        pairs: name of the source of the pairs in :data:`~baselines.pairs.PAIR_SOURCES`, or ``package.module:SOURCE``.
        match_in_own_metric: whether matching divides each factor by the conditional's standard deviation in it.
        p: exponent of the distance of delta-InfoNCE.
        temperature: temperature of InfoNCE and delta-InfoNCE.
        negatives: which of the batch's other items are negatives.
        symmetric: whether both images of a pair are anchors.
        learn_scale: whether the size of the box or the radius of the sphere is learned; where None, only the box's.
        initial_precision: initial diagonal of AnInfoNCE's Lambda.
        encoder: name of the encoder in :data:`~baselines.encoders.ENCODERS`, or ``package.module:function``.
        encoder_options: further arguments of the encoder, by name.
        loss_options: further arguments of the loss, by name.
        learning_rate: learning rate of Adam for the encoder.
        loss_learning_rate: learning rate of Adam for the parameters of the loss.
        steps: optimisation steps.
        batch_size: pairs in a step, over all processes.
        reported_r2: mean R2 on the published test split that the paper reports, in percent; None if it reports none.
    """

    name: str
    title: str
    loss: str
    space: SpaceName
    conditional: str | None
    pairs: str = "matched"
    match_in_own_metric: bool = False
    p: float = 2
    temperature: float = 0.1
    negatives: BatchNegatives = "anchors"
    symmetric: bool = False
    learn_scale: bool | None = None
    initial_precision: float = 10.0
    encoder: str = "resnet18"
    encoder_options: Mapping[str, Any] = field(default_factory=dict)
    loss_options: Mapping[str, Any] = field(default_factory=dict)
    learning_rate: float = 1e-4
    loss_learning_rate: float = 1e-3
    steps: int = 200_000
    batch_size: int = 512
    reported_r2: float | None = None

    def __post_init__(self) -> None:
        source = find_source(self.pairs)
        if source.needs_conditional and self.conditional is None:
            raise ValueError(f"{self.pairs} pairs are drawn from a conditional: give one")
        if not source.takes_conditional and self.conditional is not None:
            raise ValueError(f"{self.pairs} images have no conditional; leave {self.conditional!r} out")
        takes, served = (
            "single images" if views == 1 else "pairs" for views in (find_loss(self.loss).views, source.views)
        )
        if takes != served:
            raise ValueError(f"the loss {self.loss} takes {takes}, and {self.pairs} images are {served}")
        for what, number in (("learning rate", self.learning_rate), ("loss learning rate", self.loss_learning_rate)):
            if not number > 0:
                raise ValueError(f"a {what} is positive, not {number}")
        if self.steps < 1 or self.batch_size < 1:
            raise ValueError(f"expected at least one step of at least one pair, not {self.steps} of {self.batch_size}")

    def live(self) -> "Recipe":
        """Return this recipe on live images: fresh ones, or those of a pool.

        Raises:
            ValueError: if its pairs follow the conditional of a dataset, so that live ones need one of their own.
        """
        source = find_source(self.pairs).live
        if find_source(source).needs_conditional and self.conditional is None:
            raise ValueError(
                f"the pairs of {self.name} follow the conditional of a dataset, and live ones are drawn from the "
                "recipe's: give one with --conditional"
            )
        return replace(self, pairs=source)


_BOX = Recipe(
    "infonce-box",
    "Table 4, row 1: normal pairs, box, p = 2; the assumptions hold",
    "delta_info_nce",
    "box",
    "normal(sigma=0.1)",
    temperature=1.0,
    reported_r2=96.73,
)
_SPHERE = replace(
    _BOX,
    name="infonce-sphere",
    title="Table 4, row 4: normal pairs, sphere, dot product",
    loss="info_nce",
    space="sphere",
    reported_r2=65.74,
)
_TABLE_4 = (
    _BOX,
    replace(
        _BOX,
        name="infonce-unbounded",
        title="Table 4, row 2: normal pairs, unbounded, p = 2",
        space="unbounded",
        reported_r2=96.43,
    ),
    replace(
        _BOX,
        name="infonce-laplace",
        title="Table 4, row 3: Laplace pairs, box, p = 2",
        conditional="laplace(scale=0.1)",
        reported_r2=96.87,
    ),
    _SPHERE,
    replace(
        _SPHERE,
        name="simclr",
        title="Table 4, row 5: SimCLR's augmentations, sphere, dot product",
        conditional=None,
        pairs="augmented",
        reported_r2=45.51,
    ),
    replace(
        _BOX,
        name="supervised",
        title="Table 4's topline: the latents are shown, unbounded",
        loss="supervised",
        space="unbounded",
        conditional=None,
        pairs="single",
        reported_r2=98.67,
    ),
)
_ANINFONCE_BOX = replace(
    _BOX,
    name="aninfonce-box",
    title="AnInfoNCE on anisotropic pairs, box",
    loss="an_info_nce",
    conditional=_ANISOTROPIC,
    match_in_own_metric=True,
    temperature=0.1,
    learn_scale=False,
    reported_r2=None,
)
_ISOTROPIC = {"isotropic": True}
_MATCHED = (
    _ANINFONCE_BOX,
    replace(
        _ANINFONCE_BOX,
        name="infonce-box-isotropic",
        title="InfoNCE with one learned scale on the same anisotropic pairs, box",
        loss_options=_ISOTROPIC,
    ),
)
_EXACT = tuple(
    replace(
        recipe,
        name=f"{recipe.name}-exact",
        title=f"{recipe.title}; pairs rendered as pairs",
        conditional=None,
        pairs="rendered",
        match_in_own_metric=False,
    )
    for recipe in _MATCHED
)

_ANINFONCE_SPHERE = Recipe(
    "aninfonce-sphere",
    "AnInfoNCE on exact anisotropic pairs of latents on a sphere",
    "an_info_nce",
    "sphere",
    _ON_SPHERE,
    pairs="live",
    negatives="both",
    symmetric=True,
    initial_precision=1.0,
    encoder="cnn",
    learning_rate=1e-3,
    loss_learning_rate=5e-2,
    steps=600,
    batch_size=128,
)
_LIVE = (
    _ANINFONCE_SPHERE,
    replace(
        _ANINFONCE_SPHERE,
        name="infonce-sphere-isotropic",
        title="InfoNCE with a learned temperature on the same exact anisotropic pairs, sphere",
        loss_options=_ISOTROPIC,
    ),
)

RECIPES: Registry[Recipe] = Registry(
    "recipe", {recipe.name: recipe for recipe in (*_TABLE_4, *_MATCHED, *_EXACT, *_LIVE)}
)
"""The recipes by name. Those that end in "-exact" need a dataset rendered with ``--pairs``."""


def find_recipe(name: str) -> Recipe:
    """Return a recipe by its name in :data:`RECIPES`, or as ``package.module:RECIPE``.

    Raises:
        ValueError: if the name is unknown, or what it names is not a :class:`Recipe`.
    """
    found: object = RECIPES.find(name)
    if not isinstance(found, Recipe):
        raise ValueError(f"the recipe {name!r} is {found!r}, expected a baselines.recipes.Recipe")  # noqa: TRY004 - a name
    return found


def read_recipe(data: Mapping[str, Any]) -> Recipe:
    """Return the recipe that a run's ``options.json`` holds.

    Raises:
        ValueError: if it is not a valid recipe; every fault is listed.
    """
    held = dict(data)
    if "depth" in held:  # of runs that were written when all encoders were ResNets
        held["encoder"] = f"resnet{held.pop('depth')}"
    return from_json(Recipe, held, "recipe")


def parse_arguments(texts: Sequence[str]) -> dict[str, Any]:
    """Return the options of an encoder or a loss from the command line.

    Args:
        texts: each is ``name=value``, with the value as JSON or else as plain text; or a JSON object.

    Raises:
        ValueError: if a text is neither, or a name is given twice.
    """
    found: dict[str, Any] = {}
    for text in texts:
        for name, value in _pairs(text):
            if name in found:
                raise ValueError(f"the option {name} is given twice")
            found[name] = value
    return found


def _pairs(text: str) -> list[tuple[str, Any]]:
    if text.lstrip().startswith("{"):
        try:
            return list(json.loads(text).items())
        except ValueError as error:
            raise ValueError(f"{text!r} is not a JSON object: {error}") from error
    name, equals, value = text.partition("=")
    if not equals or not name.isidentifier():
        raise ValueError(f"{text!r} is not an option; expected name=value or a JSON object")
    try:
        return [(name, json.loads(value))]
    except ValueError:
        return [(name, value)]
