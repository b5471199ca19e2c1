"""Jobs that die, and a handler of their letters, for worker processes. It records in the ledger each call of the handler."""

from packhorse import App, DeadLetter, Keep, current
from tests.features.programs import note

KEPT = Keep(count=1_000_000, age="1h")

app = App(release="7.1")


@app.task(name="fails", queue="letters", attempts=1, keep_dead=KEPT)
async def fails(number: int) -> None:
    if number % 2:
        raise ConnectionError(f"no answer for {number}")
    raise ValueError(f"{number} is odd")


@app.dead_letters(name="review")
async def review(letter: DeadLetter) -> None:
    """Say so at once, and once more together with the end of the job."""
    about = f"{letter.job_id} {round(letter.died_at.timestamp() * 1_000_000)}"
    note("called", about)
    current().publish("handled", about.encode())
