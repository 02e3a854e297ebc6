"""Write one Parquet file into the folder of landed files."""

import pyarrow as pa
import pyarrow.parquet as pq

pq.write_table(pa.table({"id": [1, 2], "city": ["Oslo", "Rome"], "fare": [2.5, 3.5]}), "landing/a.parquet")
