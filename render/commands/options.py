"""Types of the options that several commands take."""

from typing import Literal

__all__ = ["HueMapName", "QualityName"]

QualityName = Literal["published", "standard", "draft"]
HueMapName = Literal["wrapped", "published"]
