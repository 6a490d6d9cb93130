"""Settings of every test process."""

import os

# Two test processes, and the processes that tests start, share two cores: more threads only wait for each other.
# Set before anything loads OpenMP.
os.environ.setdefault("OMP_NUM_THREADS", "1")
