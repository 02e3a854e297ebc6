"""`hudi-ops changes`: rows to wherever, and a checkpoint file that moves on only once they are out."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from hudi_ops.cli import row_files
from hudi_ops.errors import Unavailable
from hudi_ops.table import Table
