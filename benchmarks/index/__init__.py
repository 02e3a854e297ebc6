"""Bucket indexes: tagging, dual writes, resizes beside Apache Hudi's, and plans of many groups."""
