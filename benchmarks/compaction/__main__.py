"""`python -m benchmarks.compaction`: the comparison; see `compare.py` for its options."""

import sys

from benchmarks.compaction.compare import main

sys.exit(main())
