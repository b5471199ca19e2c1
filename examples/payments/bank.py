"""The bank as it runs: ``python -m examples.payments.bank`` is a worker; kill it as often as you like."""

import asyncio
import sys

from examples.payments.books import Books
from examples.payments.tasks import transfer
from packhorse import App, Tx, current

app = App()  # PACKHORSE_URL, or packhorse.db in the working directory
books = Books(app.url)
pay = transfer(app, books)


@app.task(name="open-accounts", queue="payments", transaction=True)
async def open_accounts(names: list[str], cents: int) -> None:
    """Make the tables, and accounts with something in them."""
    tx: Tx = current().tx
    for statement in books.schema:
        await tx.execute(statement)
    for name in names:
        await tx.execute(books.open, name, cents)


async def main(lease: str) -> None:
    """Work until SIGTERM; a lease is how long a payment waits after its worker was killed."""
    async with app:
        await app.worker("payments", lease=lease).run()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "30s"))
