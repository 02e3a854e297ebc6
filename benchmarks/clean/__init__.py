"""Clean, archive and restore of one table: by this library, and by Apache Hudi."""
