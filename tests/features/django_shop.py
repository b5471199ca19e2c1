"""A Django program with a model and a view's worth of code; prints what became of its jobs."""

import json
import os

import django
from django.conf import settings

from tests.features.callers import django_database

settings.configure(DATABASES={"default": django_database(os.environ["TEST_KIND"], os.environ["PACKHORSE_URL"])})
django.setup()

from django.db import connection, models, transaction  # noqa: E402

from packhorse import App  # noqa: E402

app = App()


@app.task(name="confirm")
def confirm(order: int) -> int:
    return order


class Order(models.Model):  # type: ignore[misc]
    """What the shop sells."""

    item = models.CharField(max_length=20)

    class Meta:
        app_label = "shop"
        db_table = "django_orders"


def order(item: str, *, fails: bool = False) -> str:
    """Store an order and the job that confirms it, or neither."""
    job = ""
    try:
        with transaction.atomic():
            made = Order.objects.create(item=item)
            job = confirm.using(within=connection).sync.enqueue(made.pk).id
            with transaction.atomic():  # a savepoint inside
                confirm.using(within=connection, id=f"again:{item}").sync.enqueue(made.pk)
                if fails:
                    raise ConnectionError
    except ConnectionError:
        pass
    return job


if __name__ == "__main__":
    with connection.cursor() as cursor:
        cursor.execute("drop table if exists django_orders")
    with connection.schema_editor() as editor:
        editor.create_model(Order)
    app.sync.open()
    jobs = [order("saddle"), order("bridle", fails=True), order("halter")]
    found = app.sync.find(limit=100).items
    given = {
        "orders": sorted(Order.objects.values_list("item", flat=True)),
        "made": [job in {one.id for one in found} for job in jobs],
        "jobs": len(found),
    }
    print(json.dumps(given))  # noqa: T201
    app.sync.close()
