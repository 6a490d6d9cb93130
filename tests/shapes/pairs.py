"""Example calls for streams of pairs."""

import torch

from ident3d import Normal, PositivePairs
from ident3d.pairs.augmented import SimCLRViews
from ident3d.pairs.stream import ResidentImages
from tests.ident3d.pairs.images import NumberedImages
from tests.shapes.spaces import generator

HOME = "ident3d.pairs"
FACTOR = torch.full((4, 1, 1, 1), 0.7)


def images():
    return torch.rand(4, 3, 6, 8, generator=generator())


def pairs():
    return PositivePairs(NumberedImages(50), Normal(0.1), 6)


EXAMPLES = {
    f"{HOME}.augmented.luminance": lambda: (images(),),
    **{f"{HOME}.augmented.{n}": lambda: (images(), FACTOR) for n in ("brightness", "contrast", "saturation", "hue")},
    f"{HOME}.augmented.crop_and_resize": lambda: (images(), torch.tensor([[0, 1, 3, 4]] * 4)),
    f"{HOME}.augmented.SimCLRViews.__call__": lambda: (
        SimCLRViews(),
        (255 * images()).to(torch.uint8),
        generator(),
    ),
    f"{HOME}.augmented.SimCLRViews.crops": lambda: (SimCLRViews(), 5, 6, 8, generator()),
    f"{HOME}.matched.PositivePairs.match": lambda: (pairs(), 3),
    f"{HOME}.matched.PositivePairs.batch_of": lambda: (pairs(), 3, pairs().match(3)),
    f"{HOME}.stream.ResidentImages.pixels": lambda: (
        ResidentImages(NumberedImages(9), torch.device("cpu")),
        torch.tensor([3, 1]),
    ),
}
