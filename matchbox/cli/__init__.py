"""The command line. `main` is the `matchbox` command; each subcommand is a module of its own."""

from matchbox.cli.group import main

__all__ = ["main"]
