"""State to report values, and their rendering."""
