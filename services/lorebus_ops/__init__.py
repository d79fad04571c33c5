"""The lorebus command: local stack, demo, migrations, keys."""
