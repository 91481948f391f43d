"""Where rows come from: one module for each kind of source, `source` for what all have in common.

`source_of` is the door: it decides once what a caller gave. `files` opens files and folders,
`frames` tables and streams in memory, `queries` those of databases, `spark_frames` those of Spark,
`code_tables` rows that are encoded already, `lists` several sources at once.
"""
