# The names of baselines.training, each spelled here once: type checkers read them, and __init__.py loads them.

from .embedding import embed as embed
from .options import About as About
from .options import Hardware as Hardware
from .options import Images as Images
from .options import Intervals as Intervals
from .options import LiveImages as LiveImages
from .options import TrainingOptions as TrainingOptions
from .run import Run as Run
from .training import train as train
