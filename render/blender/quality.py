"""How well, and how fast, an image is rendered: settings of the sampler and the denoiser, and three presets."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, ClassVar, Final

from ident3d.codec import from_json, to_json
from ident3d.registry import Registry

__all__ = ["DEFAULT_QUALITY", "QUALITIES", "Denoiser", "DenoiserQuality", "LightChoice", "Prefilter", "Quality"]


class Prefilter(StrEnum):
    """How the denoiser's guides, albedo and normals, are filtered first."""

    NONE = "NONE"
    FAST = "FAST"
    ACCURATE = "ACCURATE"


class DenoiserQuality(StrEnum):
    """Size of the denoiser's network."""

    HIGH = "HIGH"
    BALANCED = "BALANCED"
    FAST = "FAST"


class LightChoice(StrEnum):
    """How a sample chooses its light; each samples one light.

    Attributes:
        EQUAL: every light with the same probability.
        WEIGHTED: in proportion to ``Light.sampling_weight``. Where the weights of a scene add up to a power of two,
            every block of that many samples takes each light as often as its weight says, because Cycles' sampling
            pattern (Owen-scrambled Sobol) is stratified. The noise that is left is at edges and in penumbrae.
        TREE: by the light's estimated effect on the point, with Cycles' light tree.
    """

    EQUAL = "equal"
    WEIGHTED = "draws"
    TREE = "tree"


@dataclass(frozen=True)
class Denoiser:
    """Settings of Intel's Open Image Denoise, guided by albedo and normals.

    Attributes:
        prefilter: how the guides are filtered first.
        quality: size of the network.
    """

    prefilter: Prefilter = Prefilter.NONE
    quality: DenoiserQuality = DenoiserQuality.HIGH


@dataclass(frozen=True)
class Quality:
    """Settings of Cycles.

    Attributes:
        name: name of the quality in a manifest.
        samples: samples per pixel, 1 or more.
        adaptive_threshold: noise below which a pixel gets no more samples; None for the same number everywhere.
        light_choice: how a sample chooses its light.
        denoiser: settings of the denoiser; None for none.
    """

    engine: ClassVar[str] = "cycles"

    name: str
    samples: int
    adaptive_threshold: float | None = None
    light_choice: LightChoice = LightChoice.WEIGHTED
    denoiser: Denoiser | None = Denoiser()

    def __post_init__(self) -> None:
        if self.samples < 1:
            raise ValueError(f"quality {self.name}: expected 1 or more samples, not {self.samples}")
        if self.adaptive_threshold is not None and not 0 < self.adaptive_threshold <= 1:
            raise ValueError(f"quality {self.name}: expected a threshold in (0, 1], not {self.adaptive_threshold}")

    def to_json(self) -> dict[str, Any]:
        """Return the settings as plain data."""
        plain: dict[str, Any] = to_json(self)
        return plain

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "Quality":
        """Return the quality that :meth:`to_json` wrote; ValueError if the data do not describe one."""
        return from_json(cls, data, "quality")


DEFAULT_QUALITY: Final = "standard"
"""The preset where none is named."""

QUALITIES = Registry(
    "quality",
    {
        preset.name: preset
        for preset in (
            Quality("published", samples=512, light_choice=LightChoice.EQUAL, denoiser=Denoiser(Prefilter.ACCURATE)),
            Quality("standard", samples=12),
            Quality(
                "draft",
                samples=2,
                light_choice=LightChoice.TREE,
                denoiser=Denoiser(quality=DenoiserQuality.FAST),
            ),
        )
    },
)
"""The presets.

``published``: the settings of the authors of 3DIdent. ``standard``: the default. ``draft``: for a quick look.

They were chosen by these measurements at 224x224: mean and minimum PSNR in dB over the reference images of the hue map
``wrapped``, the same for ``published``, and seconds of one core. The error that is left is along the teapot's outline.

=================================================  ====  ====  ====  ====  ====
12 samples, weights 1, 1, 2 (``standard``)         45.9  44.5  44.8  42.8  0.80
8 samples, weights 1, 1, 2                         44.7  43.0  43.9  42.1  0.60
8 samples, weights 3, 1, 4                         45.1  43.5  43.8  41.2  0.61
12 samples, weights 3, 1, 4                        46.4  45.1  44.7  41.8  0.82
8 samples, light tree                              45.3  43.8  44.1  42.3  0.73
64 samples, light tree                             50.9  48.9  49.3  47.3  4.51
8 samples, weights 3, 1, 4, denoiser BALANCED      44.2  42.7              0.52
8 samples, weights 3, 1, 4, denoiser FAST          43.7  42.2              0.48
2 samples, light tree, denoiser FAST (``draft``)   39.2  37.5              0.18
4 samples, and 16 in the object's bounding square  44.7  43.6  43.8  43.3  0.55
=================================================  ====  ====  ====  ====  ====

The weights are those of the sun, the area light and the spotlight. The last line takes two renders per image, and
leaves a seam. Without effect on the images or the time: next event estimation instead of multiple importance sampling
(no path continues after its first hit), static BVH, light sampling threshold 0, blue noise (already the default).
Worse: guides left out (-1 dB), filtered guides (-0.6 dB), tabulated Sobol (-0.4 dB), other pixel filter widths.
Adaptive sampling first looks at the noise after 16 samples, so it cannot save any here. Leaving out the depth pass
saves 3%.
"""
