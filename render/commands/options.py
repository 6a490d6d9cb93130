"""Types of the options that several commands take."""

from typing import Literal

__all__ = ["AnyQualityName", "EngineName", "HueMapName", "LatentSpaceName", "QualityName"]

QualityName = Literal["published", "standard", "draft"]
AnyQualityName = Literal["published", "standard", "draft", "fine"]
EngineName = Literal["cycles", "live"]
LatentSpaceName = Literal["box", "sphere"]
HueMapName = Literal["wrapped", "published"]
