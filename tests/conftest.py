"""Settings of every test process."""

import os
import signal

# Two test processes, and the processes that tests start, share two cores: more threads only wait for each other.
# Set before anything loads OpenMP.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# A shell starts background jobs with Ctrl-C ignored, which the programs that tests start and interrupt would inherit.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
