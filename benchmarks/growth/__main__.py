"""`python -m benchmarks.growth`: one-row commits into one open table; see `measure.py` for its options."""

import sys

from benchmarks.growth.measure import main

sys.exit(main())
