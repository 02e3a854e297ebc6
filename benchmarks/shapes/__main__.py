"""`python -m benchmarks.shapes`: wide tables and many small files; see `measure.py` for its options."""

import sys

from benchmarks.shapes.measure import main

sys.exit(main())
