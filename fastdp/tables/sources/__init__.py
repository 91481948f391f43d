"""Where rows come from: one module for each kind of source, `source` for what all have in common.

`source_of` is the door: it decides once what a caller gave. `file_paths` opens files and folders of
this machine, `store_files` those of object stores, `delta_tables` and `iceberg_tables` those of
lakehouses. `arrow_frames`, `pandas_frames`, `polars_frames`, `foreign_batches` and `streams` have rows
in memory. `database_queries` and `spark_frames` have rows elsewhere, `code_tables` rows that are
encoded already, `lists` several sources at once.
"""
