"""The command line: one module a verb, no logic; everything heavy is imported inside the functions."""
