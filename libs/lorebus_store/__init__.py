"""PostgreSQL: tables, migrations and one module of named queries a noun. All SQL of the product lives here."""
