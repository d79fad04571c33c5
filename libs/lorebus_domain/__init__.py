"""The rules of the product, pure: standard library and `regex` only (SPEC.md)."""
