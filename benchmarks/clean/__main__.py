"""`python -m benchmarks.clean`: the comparison; see `compare.py` for its options."""

import sys

from benchmarks.clean.compare import main

sys.exit(main())
