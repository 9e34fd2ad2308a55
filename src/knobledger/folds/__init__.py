"""What follows from the events of one topic; each fold is imported when the first of its events is met."""
