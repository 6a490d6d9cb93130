"""The two maps from an angle on the hue circle to a colour.

The colours are linear RGB as Blender takes them: the authors of 3DIdent passed the RGB values of their HSV
conversion to the shaders as they were, and so do both maps.
"""

import math
from enum import StrEnum

__all__ = ["HueMap"]


class HueMap(StrEnum):
    """How an angle on the hue circle becomes a colour.

    Attributes:
        WRAPPED: the hue is the angle in turns, modulo 1; injective over a range shorter than a turn.
        PUBLISHED: the map of the downloadable 3DIdent. Its hue is not brought into [0, 1), and the conversion
            rounds the sector of the hue towards zero, so negative angles leave the gamut: channels below 0, which
            Blender shows as black, or above 1.
    """

    WRAPPED = "wrapped"
    PUBLISHED = "published"

    @property
    def stays_in_gamut(self) -> bool:
        """Whether every colour of the map has its channels in [0, 1]."""
        return self is HueMap.WRAPPED

    def rgb(self, angle_rad: float, saturation: float, value: float = 1.0) -> tuple[float, float, float]:
        """Return the colour of an angle.

        Args:
            angle_rad: angle on the hue circle, in radians; 2 pi is one turn.
            saturation: HSV saturation in [0, 1].
            value: HSV value in [0, 1].

        Returns:
            Red, green and blue, linear; in [0, 1] if :attr:`stays_in_gamut`.

        Raises:
            ValueError: if the angle is not finite, or saturation or value is outside [0, 1].
        """
        if not math.isfinite(angle_rad):
            raise ValueError(f"a hue is a finite angle in radians, not {angle_rad}")
        if not (0 <= saturation <= 1 and 0 <= value <= 1):
            raise ValueError(f"saturation and value lie in [0, 1], not {saturation} and {value}")
        turns = angle_rad / (2 * math.pi)
        if self is HueMap.WRAPPED:
            turns %= 1.0
        sector = math.trunc(turns * 6)
        fraction = turns * 6 - sector
        low = value * (1 - saturation)
        falling = value * (1 - saturation * fraction)
        rising = value * (1 - saturation * (1 - fraction))
        sectors = (
            (value, rising, low),
            (falling, value, low),
            (low, value, rising),
            (low, falling, value),
            (rising, low, value),
            (value, low, falling),
        )
        return sectors[sector % 6]
