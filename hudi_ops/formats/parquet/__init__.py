"""Read and write what Apache Hudi keeps in Parquet footers: the bloom filter and key range.

Imported by `formats` and everything above. Read first: footer.py.
"""
