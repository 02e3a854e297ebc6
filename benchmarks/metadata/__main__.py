"""`python -m benchmarks.metadata`: writes and builds beside Apache Hudi; see `compare.py` for its options."""

import sys

from benchmarks.metadata.compare import main

sys.exit(main())
