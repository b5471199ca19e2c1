"""The books of a bank: accounts and entries, in the database where the jobs are too."""

import re


class Books:
    """The statements, with the placeholders of the database at this address."""

    def __init__(self, url: str) -> None:
        self._numbered = url.startswith("postgres")
        self.schema = (
            "CREATE TABLE IF NOT EXISTS accounts (name text PRIMARY KEY, cents bigint NOT NULL CHECK (cents >= 0))",
            "CREATE TABLE IF NOT EXISTS entries (payment text, payer text, payee text, cents bigint)",
        )
        self.open = self._worded("INSERT INTO accounts VALUES (?, ?)")
        self.move = self._worded("UPDATE accounts SET cents = cents + ? WHERE name = ? AND cents + ?1 >= 0")
        self.enter = self._worded("INSERT INTO entries VALUES (?, ?, ?, ?)")
        self.balance = self._worded("SELECT cents FROM accounts WHERE name = ?")

    def _worded(self, sql: str) -> str:
        """The statement with ``$1`` for a first ``?`` on PostgreSQL, and ``?1`` on SQLite."""
        marks = iter(range(1, 10))
        numbered = re.sub(r"\?(\d?)", lambda mark: f"?{mark[1] or next(marks)}", sql)
        return numbered.replace("?", "$") if self._numbered else numbered
