"""A payment: two balances, an entry in the books and a receipt, all of it once or not at all."""

from examples.payments.books import Books
from packhorse import App, Task, Tx, current

Transfer = Task[[str, str, str, int], int]


class NotEnough(Exception):
    """The account does not hold what is to be paid."""


def transfer(app: App, books: Books) -> Transfer:
    """The task that pays: what it writes is committed with the completion of its job, under the same lease."""

    @app.task(name="receipt", queue="payments")
    async def receipt(payment: str) -> str:
        return f"receipt for {payment}"

    @app.task(name="transfer", queue="payments", transaction=True, dead_on=(NotEnough,))
    async def pay(payment: str, payer: str, payee: str, cents: int) -> int:
        tx: Tx = current().tx
        for account, change in sorted(
            [(payer, -cents), (payee, cents)]
        ):  # in one order, or two could wait for each other
            if not await tx.execute(books.move, change, account):
                raise NotEnough(f"{payer} cannot pay {cents}")  # rolled back, and dead at once
        await tx.execute(books.enter, payment, payer, payee, cents)
        current().enqueue(receipt.call(payment))  # there if, and only if, the payment is
        left = await tx.fetchval(books.balance, payer)
        return int(left)

    return pay
