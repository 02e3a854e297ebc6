"""`python -m benchmarks.ingest`: the comparison; see `compare.py` for its options."""

import sys

from benchmarks.ingest.compare import main

sys.exit(main())
