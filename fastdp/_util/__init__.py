"""What every folder may use and that knows no table: files that survive a crash, threads, progress.
Imports `errors` only."""
