"""`python -m tests.kept [NAME ...]`: writes what the cases give now into their JSON files."""

import importlib
import sys

from .figures import HERE, keep

subjects = sorted(p.stem.removeprefix("test_") for p in HERE.glob("test_*.py"))
for subject in sys.argv[1:] or subjects:
    cases = getattr(importlib.import_module(f"tests.kept.test_{subject}"), "CASES", None)
    if cases is not None:
        keep(subject, cases)
