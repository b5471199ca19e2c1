"""A table of the user's own in the database of a store, for tests of what is committed with a job."""

from packhorse.model.lease import Settlement, Verdict
from packhorse.stores.contract import Store
from tests.conftest import kinds, room
from tests.factories import MINUTE, Done, new, put_in, take

KINDS = [kind for kind in kinds() if kind in ("sqlite", "memory", "postgres")]
LONG = MINUTE
TABLE = f"business_{room()}"


def write(kind: str) -> str:
    """The statement that writes a row, in the words of the database."""
    values = "$1, $2" if kind == "postgres" else "?, ?"
    return f"insert into {TABLE} (id, name) values ({values})"


async def begin(store: Store) -> None:
    """Make the table, empty."""
    await done(store, f"create table if not exists {TABLE} (id integer primary key, name text)")
    await done(store, f"delete from {TABLE}")


async def done(store: Store, statement: str) -> None:
    """Run a statement by a transaction: a job that does nothing else."""
    await put_in(store, new(queue="prepare"))
    [lease] = await take(store, 1, "prepare")
    transaction = store.transaction(LONG)
    await transaction.execute(statement)
    assert await transaction.settle(Settlement(lease, Done())) is Verdict.WRITTEN
    await store.jobs.drop([lease.id])


async def rows(store: Store) -> list[int]:
    """The rows that others see."""
    transaction = store.transaction(LONG)
    found = await transaction.fetch(f"select id from {TABLE} order by id")
    await transaction.roll_back()
    return [row["id"] for row in found]
