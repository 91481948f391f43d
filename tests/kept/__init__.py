"""Results that are kept: what many small calls of a folder give, refusals included, compared with a file.

A test file here holds `CASES`, functions without arguments by name; `KEPT.json` of the same name holds what
they gave when somebody last looked. Whole numbers, texts and codes must be the same; floats within 1e-6, so
that the files hold on every processor. After a change that is meant: `python -m tests.kept [NAME ...]`, and
the commit says what changed and why.
"""
