"""A task for programs without an event loop; its app lives where the environment says."""

from packhorse import App

app = App()


@app.task(name="note")
def note(word: str) -> str:
    return word
