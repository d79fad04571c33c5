"""The consumer that records recalls and labels them with how their session ended."""
