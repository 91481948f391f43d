"""`python -m fastdp`: the command line."""

from .cli.app import main

main()
