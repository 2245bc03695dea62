"""One file per command, imported when the command is run. `control` holds three: pause, cancel and limits."""
