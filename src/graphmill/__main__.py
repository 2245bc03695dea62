"""``python -m graphmill`` is the command line."""

from graphmill.cli.main import main

main()
