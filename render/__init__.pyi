# The names of render, each spelled here once: type checkers read them, and __init__.py loads them.

from .blender.pool import PoolSpec as PoolSpec
from .dataset.merge import merge_parts as merge_parts
from .dataset.render import RenderReport as RenderReport
from .dataset.render import render_dataset as render_dataset
from .dataset.spec import DatasetSpec as DatasetSpec
from .dataset.spec import Part as Part
from .dataset.verify import VerifySpec as VerifySpec
from .dataset.verify import verify_images as verify_images
from .figures import TraversalSpec as TraversalSpec
from .figures import contact_sheet as contact_sheet
from .figures import traversal as traversal
