"""The command line: `app` only parses arguments and calls the library, `show` formats tables for
the terminal. It imports the public functions; no other folder imports it."""
