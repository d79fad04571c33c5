"""Taking the locks of a migration that changes several tables while services work on them.

The rule that must not break: no transaction of a service is ended for it. Services hold locks on some tables while they
wait for others; whoever waits here lets go of all it has before PostgreSQL looks for deadlocks (after a second), and
begins again with the table that it waited for: after a few times the order is theirs.
"""

from collections.abc import Iterable
from typing import Final

_LOCK: Final = """
DO $$ DECLARE
    tables text[] := ARRAY[{tables}];
    ordinary text := current_setting('lock_timeout');
    wanted text;
BEGIN
    FOR attempt IN 1..40 LOOP
        BEGIN
            PERFORM set_config('lock_timeout', '200ms', true);
            FOREACH wanted IN ARRAY tables LOOP
                EXECUTE format('LOCK TABLE lorebus.%I IN ACCESS EXCLUSIVE MODE', wanted);
            END LOOP;
            EXIT;
        EXCEPTION WHEN lock_not_available THEN
            IF attempt = 40 THEN
                RAISE;
            END IF;
            tables := wanted || array_remove(tables, wanted);
            PERFORM pg_catalog.pg_sleep(0.02 + random() / 20);
        END;
    END LOOP;
    PERFORM set_config('lock_timeout', ordinary, true);
END $$
"""


def lock_tables(tables: Iterable[str]) -> str:
    """The SQL that locks these tables of ours against everybody until the transaction ends."""
    return _LOCK.format(tables=", ".join(f"'{table}'" for table in tables))
