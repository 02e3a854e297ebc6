"""`python -m benchmarks.index`: the comparison; see `compare.py` for its options."""

import sys

from benchmarks.index.compare import main

sys.exit(main())
