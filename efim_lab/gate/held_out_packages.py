"""Names the packages that the embedded model has not read: they measure, or settings are fitted to them."""

HELD_OUT = frozenset({"asyncio", "cattrs", "jinja2", "networkx", "pygls"})
TUNING = frozenset(
    """
    apscheduler arrow click cookiecutter copier dramatiq gunicorn honcho huey isort loguru mido mistune mkdocs
    mongoengine nox omegaconf openpyxl paramiko pelican praw pypdf quart rich sanic tomlkit trio tweepy
    websockets werkzeug
    """.split()  # noqa: SIM905 - shorter than a list
)
# httpx2 continues httpx from the same code.
MEASURED = frozenset(
    """
    aiohttp black bottle celery fabric falcon httpx httpx2 invoke luigi marshmallow peewee pyramid redis rq scrapy
    structlog textual tornado
    """.split()  # noqa: SIM905 - shorter than a list
)
SPLITS = {"tuning": TUNING, "heldout": HELD_OUT | MEASURED}  # as `eval --split` names them
