"""The command line: `app` parses arguments and nothing else, `show` draws tables for the terminal. Imports
the public functions; nothing imports it."""
