"""`python -m lorebus_ops`: the `lorebus` command."""

from lorebus_ops.cli import main

if __name__ == "__main__":
    main()
