"""`python -m fastdp`: the command line."""

from .cli import main

main()
