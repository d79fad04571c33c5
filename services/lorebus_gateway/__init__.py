"""HTTP for runners, organizations and operators."""
