"""The consumer that keeps lessons and counts how often each is confirmed."""
