"""The consumer that keeps each agent config under its cap."""
