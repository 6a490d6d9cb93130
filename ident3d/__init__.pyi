# The names of ident3d, each spelled here once: type checkers read them, and __init__.py loads them.

from . import conditionals as conditionals
from . import live as live
from . import metrics as metrics
from .conditionals import AnisotropicNormal as AnisotropicNormal
from .conditionals import Conditional as Conditional
from .conditionals import GeneralizedNormal as GeneralizedNormal
from .conditionals import Laplace as Laplace
from .conditionals import Normal as Normal
from .conditionals import Product as Product
from .conditionals import Uniform as Uniform
from .conditionals import VonMisesFisher as VonMisesFisher
from .conditionals import true_mutual_information as true_mutual_information
from .dataset import ThreeDIdent as ThreeDIdent
from .errors import DatasetError as DatasetError
from .factors import FACTORS as FACTORS
from .factors import Factor as Factor
from .factors import Factors as Factors
from .hub import from_hub as from_hub
from .kitti import KittiMasks as KittiMasks
from .kitti import walkers as walkers
from .latents import from_physical as from_physical
from .latents import sample_latents as sample_latents
from .latents import to_physical as to_physical
from .matching import PairIndex as PairIndex
from .pairs import AugmentedPairs as AugmentedPairs
from .pairs import BatchTransform as BatchTransform
from .pairs import FramePairs as FramePairs
from .pairs import LivePairs as LivePairs
from .pairs import LivePool as LivePool
from .pairs import PairBatch as PairBatch
from .pairs import PositivePairs as PositivePairs
from .pairs import RenderedPairs as RenderedPairs
from .pairs import normalize as normalize
from .spaces import Box as Box
from .spaces import Sphere as Sphere
from .spaces import Unbounded as Unbounded
from .submission import Submission as Submission

__version__: str
