"""The kinds of events, a module for each topic; `event.py` reads and writes them."""
