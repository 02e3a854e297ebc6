"""`python -m benchmarks.read`: the comparison; see `compare.py` for its options."""

import sys

from benchmarks.read.compare import main

sys.exit(main())
