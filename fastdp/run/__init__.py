"""A whole run, from arguments to files.

`synthesize` is the public function. `validate` checks its arguments and makes a `RunSpec` (`spec`
lists the options). `execute` does the run: `prepare` checks what can fail without private data,
`counter` reads and counts, `output` writes the rows, `finalize` writes the statement. `folder`
makes the run folder appear complete or not at all, and `result` is what the caller gets back.
`plan` says beforehand what a run would do; `verify` checks a finished folder.

This package imports every folder below it. Private numbers reach it only through `release`.
"""
