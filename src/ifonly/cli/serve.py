"""``ifonly serve``: the what-if page and its JSON API, on this machine."""

import os
import re
import sys
import threading
import webbrowser
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

import typer
from typer import Argument, Option

from ifonly.cli.options import Keys
from ifonly.engines.threads import available
from ifonly.model.errors import InputError
from ifonly.model.extras import missing

__all__ = ["serve"]

NEEDED = ("fastapi", "uvicorn", "orjson", "prometheus_client")
TABLES = (".csv", ".tsv", ".parquet", ".pq", ".arrow", ".ipc", ".feather", ".gz", ".bz2", ".zst")
NAME = re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]*)=(.+)")
LEAST_TOKEN = 16  # characters
DISPLAYS = ("DISPLAY", "WAYLAND_DISPLAY")  # what is set where a browser could be seen


def serve(
    files: Annotated[
        list[str],
        Argument(metavar="[NAME=]MODEL [DATA] …", help="Model files, each perhaps followed by a file of rows to choose from."),
    ],
    host: Annotated[str, Option("--host", help="Where to listen; by default only this machine can ask.")] = "127.0.0.1",
    port: Annotated[int, Option("--port", min=0, max=65535, help="0 for any that is free.")] = 8000,
    key: Keys = None,
    policy: Annotated[
        Path | None, Option("--policy", metavar="FILE", help="What a house has decided: what no request or page can undo.")
    ] = None,
    image: Annotated[str | None, Option("--image", metavar="HxW", help="The features are pixels, such as 28x28.")] = None,
    token_file: Annotated[Path | None, Option("--token-file", help="Requests have to bring the token in this file.")] = None,
    no_token: Annotated[
        bool, Option("--no-token", help="Other machines may ask without one (a gateway in front asks for it).")
    ] = False,
    allow_host: Annotated[
        list[str] | None, Option("--allow-host", metavar="NAME", help="A name the server is called by (repeatable).")
    ] = None,
    max_rows: Annotated[int, Option("--max-rows", min=1, help="Rows in one request.")] = 1000,
    max_body: Annotated[float, Option("--max-body", min=0.001, help="Megabytes in one request.")] = 8.0,
    timeout: Annotated[float, Option("--timeout", min=0.01, help="Seconds for one request.")] = 10.0,
    queue: Annotated[int, Option("--queue", min=1, help="Requests that may wait; one more gets a 503.")] = 1000,
    threads: Annotated[int | None, Option("--threads", min=1, help="For many rows; by default one per core.")] = None,
    log_data: Annotated[bool, Option("--log-data", help="Log what was asked and answered, personal data included.")] = False,
    no_open: Annotated[bool, Option("--no-open", help="Do not open the page in a browser.")] = False,
) -> None:
    """Serve the what-if page and the JSON API.

    [bold]Examples[/bold]

    ifonly serve credit.npz people.csv

    ifonly serve credit.npz people.csv --policy policy.toml

    ifonly serve credit=credit.npz people.parquet digits=digits.npz digits.parquet --key id --image 8x8

    ifonly serve credit.npz --host 0.0.0.0 --allow-host whatif.example.org --token-file token.txt
    """
    if any(find_spec(name) is None for name in NEEDED):
        raise missing("ifonly serve needs FastAPI, uvicorn, orjson and prometheus_client", "serve")
    from ifonly.server.run import listen, serve
    from ifonly.server.service import LOOPBACK, Settings

    token = None if token_file is None else _token(token_file)
    if host not in LOOPBACK and token is None and not no_token:
        raise InputError(f"--host {host} lets other machines ask: give --token-file, or --no-token if a gateway keeps watch")
    sources = _sources(files, key, image, policy)
    settings = Settings(
        max_rows=max_rows,
        max_body=int(max_body * 2**20),
        timeout=timeout,
        queue=queue,
        token=token,
        hosts=LOOPBACK | {host.lower()} | {name.lower() for name in allow_host or ()},
        log_data=log_data,
        threads=available(threads),
    )
    sock = listen(host, port)
    url = f"http://{'localhost' if host in LOOPBACK else f'[{host}]' if ':' in host else host}:{sock.getsockname()[1]}/"

    def started() -> None:
        typer.echo(f"ifonly is at {url} (Ctrl-C stops it)")
        sys.stdout.flush()
        has_display = sys.platform in ("darwin", "win32") or any(os.environ.get(name) for name in DISPLAYS)
        if not no_open and has_display:
            threading.Thread(target=webbrowser.open, args=(url,), daemon=True).start()

    with sock:
        serve(sources, settings, sock, started=started)


def _sources(files: list[str], keys: list[str] | None, image: str | None, policy: Path | None) -> list[Any]:
    """Models and their data: a file of rows belongs to the model before it."""
    from ifonly.server.models import Source

    found: list[dict[str, Any]] = []
    for text in files:
        named = NAME.fullmatch(text)
        path = Path(text if named is None or Path(text).exists() else named[2])
        if path.is_dir() or path.suffix.lower() in TABLES:
            if not found or found[-1]["data"] is not None:
                raise InputError(f"{path} is a file of rows; it goes after the model that it is for")
            found[-1]["data"] = path
        else:
            name = path.stem if named is None or path == Path(text) else named[1]
            found.append({"name": name, "path": path, "data": None})
    names = [part["name"] for part in found]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise InputError(f"two models are called {twice[0]!r}; name them: first={found[0]['path']} second={found[1]['path']}")
    return [Source(**part, keys=keys, image=None if image is None else _shape(image), policy=policy) for part in found]


def _shape(text: str) -> tuple[int, int]:
    found = re.fullmatch(r"([1-9]\d{0,4})x([1-9]\d{0,4})", text.lower())
    if found is None:
        raise InputError(f"--image must be HEIGHTxWIDTH, such as 28x28; got {text!r}")
    return int(found[1]), int(found[2])


def _token(path: Path) -> str:
    token = path.read_text(encoding="utf-8").strip()
    if len(token) < LEAST_TOKEN or not token.isascii() or not token.isprintable() or " " in token:
        raise InputError(f"{path} must have a token of {LEAST_TOKEN} characters or more, in one line and without spaces")
    return token
