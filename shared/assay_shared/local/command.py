"""The commands for all services together: up, dashboard, keys."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:  # only types
    from assay_shared.settings.api_keys import Scope
    from assay_shared.settings.home import Access


def up(
    home: Path | None = typer.Option(
        None, help="Folder for runs, logs and Valkey's files; ASSAY_RUNS or runs without it."
    ),
    workers: int = typer.Option(2, min=1, help="Rollout workers."),
    inference_replicas: int = typer.Option(1, min=1, help="Inference services for the policy."),
) -> None:
    """Start all services and stay until Ctrl-C.

    A service listens at its ASSAY_..._URL if that is set, else at its usual port if that is free.
    With ASSAY_REDIS_URL, that Redis is used, else an embedded Valkey.
    """
    import os
    import time

    from assay_shared.local.launcher import running_services
    from assay_shared.service.browser_session import make_link
    from assay_shared.settings.home import written
    from assay_shared.telemetry.logs import set_up_logging

    set_up_logging("up", "WARNING")
    home = home or Path(os.environ.get("ASSAY_RUNS") or "runs")
    access = _access(home)
    _stop_at_signals()

    def show(name: str, url: str) -> None:
        print(f"{name:<10} {url}", flush=True)

    try:
        with (
            running_services(
                home,
                num_workers=workers,
                usual_ports=True,
                num_inference_replicas=inference_replicas,
                settings=access.variables,
                on_ready=show,
                on_port_taken=lambda told: print(told, flush=True),
            ) as mesh,
            written(home, mesh.environment),
        ):
            print(f"\ndashboard  {make_link(mesh.urls['trainer'], access.token)}")
            print(f"           (opens once; `assay dashboard` makes another){access.told}")
            print("\nup; commands in this folder find it    Ctrl-C stops everything", flush=True)
            while True:
                mesh.watch()
                time.sleep(0.5)
    except KeyboardInterrupt:
        print("stopped")


def _access(home: Path) -> "Access":
    from assay_shared.errors import ConfigError
    from assay_shared.settings.home import Access

    try:
        return Access.of(home)
    except OSError as error:
        told = f"{home} cannot be the folder of services: {error.strerror}"
        raise ConfigError(told, field="--home", hint="name one that can be written to") from None


def _stop_at_signals() -> None:
    import signal

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    # SIGINT too: a shell that starts a command in the background makes it ignore SIGINT.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, stop)


def dashboard(
    url: str | None = typer.Option(None, help="Trainer's address; default: ASSAY_TRAINER_URL."),
) -> None:
    """Print a link to the dashboard. The link works once and needs no token."""
    from assay_shared.errors import ConfigError
    from assay_shared.service.browser_session import make_link
    from assay_shared.settings.environment import ServiceSettings, read_settings

    settings = read_settings(ServiceSettings)
    token = settings.token_of("trainer")
    if token is None:
        raise ConfigError("a link needs the trainer's token", field="ASSAY_TRAINER_TOKEN")
    print(make_link(url or settings.trainer_url, token))


keys = typer.Typer(
    help="Make, list and revoke keys of clients, in the key file of the services.",
    no_args_is_help=True,
    add_completion=False,
)
_KEY_FILE = typer.Option(None, help="Key file; default: ASSAY_CLIENT_TOKENS_FILE.")


@keys.command()
def make(
    name: str = typer.Argument(help="The client's name."),
    scope: list[str] = typer.Option([], help="Scope of the key; repeatable. Default: all scopes."),
    requests_per_minute: int | None = typer.Option(None, min=1, help="Limit on requests."),
    days: float | None = typer.Option(None, min=0, help="Days until it expires."),
    file: Path | None = _KEY_FILE,
) -> None:
    """Make a key and print its token. The token is not shown again."""
    from assay_shared.settings.key_file import add_key

    token = add_key(
        _key_file(file),
        name,
        scopes=_scopes(scope),
        requests_per_minute=requests_per_minute,
        expires_at=None if days is None else datetime.now(UTC) + timedelta(days=days),
    )
    print(token)


@keys.command("list")
def list_keys(file: Path | None = _KEY_FILE) -> None:
    """Show the clients and the scopes of their keys, without the tokens."""
    from assay_shared.settings.key_file import read_keys

    for name, key in read_keys(_key_file(file)).items():
        scopes = "everything" if key.scopes is None else " ".join(sorted(key.scopes))
        ends = "" if key.expires_at is None else f"  until {key.expires_at:%Y-%m-%d %H:%M %Z}"
        limit = key.requests_per_minute
        often = "" if limit is None else f"  {limit} a minute"
        print(f"{name:<20} {scopes}{often}{ends}")


@keys.command()
def revoke(
    name: str = typer.Argument(help="The client's name."), file: Path | None = _KEY_FILE
) -> None:
    """Revoke a key; services refuse it within a second or two."""
    from assay_shared.settings.key_file import revoke_key

    revoke_key(_key_file(file), name)
    print(f"the key of {name} is revoked")


def _key_file(file: Path | None) -> Path:
    import os

    from assay_shared.errors import ConfigError

    named = file or os.environ.get("ASSAY_CLIENT_TOKENS_FILE")
    if not named:
        raise ConfigError("name the file with the keys", field="ASSAY_CLIENT_TOKENS_FILE")
    return Path(named)


def _scopes(names: list[str]) -> "frozenset[Scope] | None":
    from assay_shared.errors import InvalidInput
    from assay_shared.settings.api_keys import Scope

    wrong = [name for name in names if name not in set(Scope)]
    if wrong:
        known = ", ".join(Scope)
        raise InvalidInput(f"there is no scope {wrong[0]!r}", field="scope", hint=known)
    return frozenset(map(Scope, names)) if names else None
