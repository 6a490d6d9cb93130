"""KITTI Masks: segmentation masks of pedestrians, frame by frame, and walkers that stand in for them."""

from ident3d.kitti.archive import Pedestrian, read_archive
from ident3d.kitti.masks import MASK_FACTORS, KittiMasks, MaskSequences
from ident3d.kitti.walking import draw_walkers, walkers

__all__ = ["MASK_FACTORS", "KittiMasks", "MaskSequences", "Pedestrian", "draw_walkers", "read_archive", "walkers"]
