"""The command line: one thin module a subcommand, each of which parses, calls and prints."""
