"""A worker whose jobs come from other languages: ``python -m examples.producers.tasks``."""

import asyncio

from packhorse import App


def greeting(app: App) -> None:
    """Tell an app what ``greet`` means; producers know nothing but this name and its arguments."""

    @app.task(name="greet")
    async def greet(name: str, times: int = 1) -> str:
        return ", ".join([f"Good day {name}"] * times)


if __name__ == "__main__":
    shop = App()  # PACKHORSE_URL, or packhorse.db in the working directory
    greeting(shop)
    asyncio.run(shop.worker().run())
