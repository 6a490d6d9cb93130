"""The names that several commands take as values of an option."""

from typing import Literal

__all__ = ["HueMapName", "QualityName"]

QualityName = Literal["published", "standard", "draft"]
HueMapName = Literal["wrapped", "published"]
