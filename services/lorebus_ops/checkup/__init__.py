"""`lorebus doctor`: looking at all that a set-up needs, and saying of each thing what is wrong and what to do."""
