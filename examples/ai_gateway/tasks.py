"""Asking the model, as a job: typed in and out, with progress and tokens on the way."""

from dataclasses import dataclass

from examples.ai_gateway.model import Model
from packhorse import App, Keep, Task, current, exponential


@dataclass(frozen=True)
class Prompt:
    """What somebody asks."""

    user: str
    text: str


@dataclass(frozen=True)
class Completion:
    """What the model answered."""

    content: str
    tokens: int


def generation(app: App, model: Model) -> Task[[Prompt], Completion]:
    """The task that asks the model. The same user asking the same within 5 seconds is one job."""
    app.queue("ai", keep_done=Keep(count=1000, age="24h"), keep_dead=Keep(count=50, age="7d"))

    @app.task(name="llm:generate", queue="ai", attempts=3, backoff=exponential(2), timeout="2m", unique="5s")
    async def generate(prompt: Prompt) -> Completion:
        ctx = current()
        ctx.progress(10, "asking the model")
        tokens: list[str] = []
        async for token in model(prompt.text):
            ctx.emit(token)
            tokens.append(token)
            ctx.progress(50, f"{len(tokens)} tokens")
        return Completion("".join(tokens).strip(), len(tokens))

    return generate
