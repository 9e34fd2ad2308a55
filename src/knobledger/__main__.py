"""`python -m knobledger` is `knob`."""

from knobledger.cli.main import main

main()
