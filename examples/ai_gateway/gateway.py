"""As it runs: ``uvicorn examples.ai_gateway.gateway:web`` is the API, ``python -m examples.ai_gateway.gateway`` a worker."""

import asyncio

from examples.ai_gateway.api import api
from examples.ai_gateway.model import echo
from examples.ai_gateway.tasks import generation
from packhorse import App

app = App()  # PACKHORSE_URL, or packhorse.db in the working directory
web = api(app, generation(app, echo))

if __name__ == "__main__":
    asyncio.run(app.worker("ai", concurrency=5).run())
