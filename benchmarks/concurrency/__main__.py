"""`python -m benchmarks.concurrency`: the measurement; see `compare.py` for its options."""

import sys

from benchmarks.concurrency.compare import main

sys.exit(main())
