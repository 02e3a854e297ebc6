"""`python -m benchmarks.clustering`: the comparison; see `compare.py` for its options."""

import sys

from benchmarks.clustering.compare import main

sys.exit(main())
