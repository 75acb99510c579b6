"""What Alembic runs to migrate: on the connection that it is given, in its transaction."""

from alembic import context

from results.store.schema import metadata

# Without batches SQLite cannot alter a table at all.
context.configure(
    connection=context.config.attributes["connection"],
    version_table=context.config.attributes["version_table"],
    target_metadata=metadata,
    render_as_batch=True,
)
context.run_migrations()
