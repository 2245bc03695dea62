"""What Graphmill is measured against: a script for each peer, run by the interpreter that has it installed; it prints JSON."""
