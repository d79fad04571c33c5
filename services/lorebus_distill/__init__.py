"""The consumer that turns finished sessions into lessons."""
