"""`python -m benchmarks.cancel`: the measurement; see `compare.py` for its options."""

import sys

from benchmarks.cancel.compare import main

sys.exit(main())
