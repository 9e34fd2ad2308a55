"""Reading shell: a parser, and a walk that follows every variable to the launches."""
