"""`python -m benchmarks.view`: what the file-system view saves; see `measure.py` for its options."""

import sys

from benchmarks.view.measure import main

sys.exit(main())
