"""`python -m benchmarks.tpch`: upserts and services of TPC-H `lineitem`; see `measure.py` for its options."""

import sys

from benchmarks.tpch.measure import main

sys.exit(main())
