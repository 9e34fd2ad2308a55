"""`python -m knobledger` is `knob`."""

from knobledger.cli.start import main

main()
