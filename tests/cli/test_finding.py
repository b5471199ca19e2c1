"""How a command finds its app, and what it says if it does not."""

from pathlib import Path

import pytest

from tests.cli import forks
from tests.cli.shell import SHOP, Shell

APP = "from packhorse import App\napp = App()\n"


def place(folder: Path, files: dict[str, str], **variables: str) -> Shell:
    folder.mkdir()
    shell = Shell(folder, **variables)
    for name, text in files.items():
        shell.write(name, text)
    return shell


FOUND: dict[str, tuple[dict[str, str], tuple[str, ...], dict[str, str]]] = {
    "module and name": ({"shop.py": SHOP}, ("-A", "shop:app"), {}),
    "module alone": ({"shop.py": SHOP}, ("-A", "shop"), {}),
    "a name within": ({"shop.py": f"{SHOP}\nclass Place:\n    inner = app\n"}, ("-A", "shop:Place.inner"), {}),
    "a variable": ({"shop.py": SHOP}, (), {"PACKHORSE_APP": "shop:app"}),
    "in app.py": ({"app.py": SHOP, "main.py": "import packhorse\nraise SystemExit('too far')\n"}, (), {}),
    "in a package": ({"work/__init__.py": "", "work/tasks.py": SHOP}, ("-A", "work.tasks"), {}),
    "in src": ({"src/shop/__init__.py": "", "src/shop/jobs.py": SHOP}, (), {}),
    "not in what does not speak of it": ({"app.py": "raise SystemExit('no')\n", "tasks.py": SHOP}, (), {}),
    "the same under two names": ({"shop.py": f"{SHOP}\nagain = app\n"}, ("-A", "shop"), {}),
}

LOST: dict[str, tuple[dict[str, str], tuple[str, ...], str]] = {
    "no module": ({}, ("-A", "nowhere:app"), "There is no module 'nowhere' in {here}: check the name, or go to"),
    "no module in a package": ({"work/__init__.py": ""}, ("-A", "work.far"), "There is no module 'work.far' in {here}"),
    "a path": ({"shop.py": APP}, ("-A", "./shop.py"), "'./shop.py' is a path: write it as it is imported, shop:app"),
    "no app": ({"shop.py": "x = 1\n"}, ("-A", "shop"), "shop holds no App: make one there, app = App(), or name the"),
    "two apps": (
        {"shop.py": f"{APP}other = App('sqlite:///:memory:')\n"},
        ("-A", "shop"),
        "shop holds 2 apps: use shop:app or shop:other",
    ),
    "no such name": ({"shop.py": APP}, ("-A", "shop:queue"), "shop has no 'queue': use shop:app"),
    "not an app": (
        {"shop.py": f"{APP}x = 1\n"},
        ("-A", "shop:x"),
        "shop:x is not an App, its type is int: use shop:app",
    ),
    "nothing anywhere": ({"readme.py": APP}, (), "No app found (no module that imports packhorse in the usual places)"),
    "none in the usual places": (
        {"main.py": "import packhorse\n"},
        (),
        "No app found (none in main): name it with -A module:app",
    ),
    "it raises": (
        {"shop.py": "def start():\n    raise RuntimeError('no coal')\n\n\nstart()\n"},
        ("-A", "shop"),
        "Importing 'shop' raised RuntimeError: fix it there.",
    ),
    "it lacks a module": (
        {"shop.py": "import not_installed\n"},
        ("-A", "shop"),
        "Importing 'shop' raised ModuleNotFoundError",
    ),
    "it exits": ({"shop.py": "raise SystemExit(0)\n"}, ("-A", "shop"), "Importing 'shop' raised SystemExit"),
}


async def test_an_app_is_found(tmp_path: Path):
    cases = [
        (place(tmp_path / f"{number}", files, **variables), ("enqueue", *arguments, "gone"))
        for number, (files, arguments, variables) in enumerate(FOUND.values())
    ]

    answers = dict(zip(FOUND, await forks.run(cases), strict=True))

    messages = {name: answer.err for name, answer in answers.items()}
    assert [name for name, words in messages.items() if "The app has no task 'gone': " not in words] == [], messages
    assert {answer.code for answer in answers.values()} == {2}


async def test_an_app_that_is_not_found_is_reported_with_what_to_do(tmp_path: Path):
    cases = [
        (place(tmp_path / f"{number}", files), ("enqueue", *arguments, "add"))
        for number, (files, arguments, _) in enumerate(LOST.values())
    ]

    answers = await forks.run(cases)

    for (_, _, words), (shell, _), answer in zip(LOST.values(), cases, answers, strict=True):
        assert (answer.code, answer.out) == (3, ""), words
        assert answer.err.startswith("Error: " + words.replace("{here}", str(shell.folder))), answer.err


async def test_the_frames_shown_are_those_of_the_user(folder: Shell):
    folder.write("shop.py", "def start():\n    raise RuntimeError('no coal')\n\n\nstart()\n")

    answer = await folder.run("worker", "shop:app")

    assert answer.err.rstrip().endswith("RuntimeError: no coal")
    assert [line.split(",")[1] for line in answer.err.splitlines() if line.startswith("  File")] == [
        " line 5",
        " line 2",
    ]


async def test_what_is_typed_wins_over_the_environment(folder: Shell):
    typed = await folder.run("enqueue", "-A", "shop", "gone", PACKHORSE_APP="nowhere")
    only_a_store = await folder.run("enqueue", "--url", "sqlite:///other.db", "gone", PACKHORSE_APP="nowhere")

    assert "The app has no task 'gone'" in typed.err
    assert only_a_store.code == 0


async def test_an_address_in_the_environment_does_not_hide_the_app_of_the_folder(shell: Shell):
    (shell.folder / "shop.py").rename(shell.folder / "app.py")
    greet = ("enqueue", "greet", "name=5", "--json")
    cases = (greet, (*greet, "times=abc"), ("enqueue", "gret"), ("doctor", "--json"))

    stored, wrong, misspelt, doctor = await forks.run([(shell, case) for case in cases])

    assert (stored.json["queue"], wrong.code, misspelt.code) == ("letters", 2, 2)
    assert "greet() does not take these arguments: Expected `int`, got `str` - at `$.times`" in wrong.err
    assert "The app has no task 'gret': did you mean 'greet'?" in misspelt.err
    assert "tasks without a timeout" in {finding["name"] for finding in doctor.json}


async def test_a_broken_app_is_not_passed_over(folder: Shell):
    folder.write("app.py", "import packhorse\nraise RuntimeError('no coal')\n")
    (folder.folder / "packhorse.db").touch()
    with_address = Shell(folder.folder, PACKHORSE_URL=f"sqlite:///{folder.folder}/other.db")

    answers = await forks.run(
        [(with_address, ("enqueue", "add")), (folder, ("enqueue", "add")), (folder, ("jobs", "ls"))]
    )

    assert [answer.code for answer in answers] == [3, 3, 3]
    assert all("Importing 'app' raised RuntimeError" in answer.err for answer in answers)
    assert not (folder.folder / "other.db").exists()


async def test_where_an_address_is_enough_the_message_says_so(tmp_path: Path):
    nothing = Shell(tmp_path)

    looking, working = await forks.run([(nothing, ("jobs", "ls")), (nothing, ("worker",))])

    words = "No app found (no module that imports packhorse in the usual places): name it with -A module:app, or in PACKHORSE_APP"
    assert (looking.code, looking.err) == (3, f"Error: {words}; or name only its store, with --url\n")
    assert (working.code, working.err) == (3, f"Error: {words}\n")


async def test_without_an_app_an_address_in_the_environment_is_enough(folder: Shell):
    answer = await folder.run("enqueue", "anything", PACKHORSE_URL="sqlite:///other.db")

    assert (answer.code, (folder.folder / "other.db").exists()) == (0, True)


async def test_an_address_that_the_app_does_not_take_is_refused(folder: Shell):
    folder.write("own.py", "from packhorse import App\napp = App('sqlite:///own.db')\n")

    taken = await folder.run("enqueue", "-A", "shop", "--url", "sqlite:///typed.db", "add", "a=1", "b=2")
    refused = await folder.run("enqueue", "-A", "own", "--url", "sqlite:///typed.db", "add")

    assert (taken.code, (folder.folder / "typed.db").exists()) == (0, True)
    assert (refused.code, refused.err) == (
        2,
        "Error: The app names its own url: leave out --url, or make the app without url=.\n",
    )


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("redis://user:hush@localhost:1/0", "Error: The store at redis://localhost:1/0 cannot be used: "),
        (
            "postgresql://user:hush@localhost:1/db",
            "Error: The store at postgresql://localhost:1/db cannot be used: ",
        ),
        ("sqlite:///shop.py/x.db", "Error: The store at sqlite:///{folder}/shop.py/x.db cannot be used: "),
    ],
)
async def test_a_store_that_is_not_reached_is_reported_with_what_to_check(folder: Shell, url: str, words: str):
    answer = await folder.run("enqueue", "--url", url, "add")

    assert (answer.code, answer.out) == (4, "")
    assert answer.err.startswith(words.format(folder=folder.folder))
    assert "\nCheck: " in answer.err
    assert "hush" not in answer.err
    assert "Traceback" not in answer.err


async def test_other_trouble_is_a_sentence_too(folder: Shell):
    (folder.folder / "empty.db").touch()
    check, enqueue = ("worker", "--check", "--url"), ("enqueue", "add", "--url")
    cases = ((*enqueue, "mysql://localhost"), (*check, "sqlite:///missing.db"), (*check, "sqlite:///empty.db"))
    look = ("jobs", "ls", "-A", "shop:app", "--url", "sqlite:///missing.db")

    scheme, missing, empty, looked = await forks.run([(folder, case) for case in (*cases, look)])

    assert (scheme.code, scheme.err.count("\n")) == (2, 1)
    assert scheme.err.startswith("Error: The scheme 'mysql' of the address is unknown: use ")
    assert missing.code == 4
    assert (
        missing.err
        == f"Error: There is no file {folder.folder}/missing.db: check --url, or `packhorse migrate up` creates it.\n"
    )
    assert looked == missing
    assert not (folder.folder / "missing.db").exists()
    assert empty.code == 4
    assert "The layout of the store is missing: run `packhorse migrate up`" in empty.err


async def test_what_is_not_installed_is_named(folder: Shell):
    folder.write("redis/__init__.py", "raise ModuleNotFoundError")

    answer = await folder.run("enqueue", "--url", "redis://localhost", "add")

    assert answer.code == 2
    assert answer.err == "Error: Redis or Valkey needs an optional dependency: pip install 'packhorse[redis]'\n"
