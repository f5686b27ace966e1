"""A schedule: for each tuple the instant in which it leaves memory."""

import numpy as np

NEVER = np.iinfo(np.int64).max
