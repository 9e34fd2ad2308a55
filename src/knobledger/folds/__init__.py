"""What follows from the events of one topic, a module for each; `state.py` hands the events on."""
