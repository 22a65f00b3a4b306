"""`python -m matchbox` is the `matchbox` command."""

from matchbox.cli import main

main()
