"""`python -m benchmarks.page`: what the page costs in Airflow's API server; see `measure.py` for its options."""

import sys

from benchmarks.page.measure import main

sys.exit(main())
