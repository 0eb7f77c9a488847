"""Commands of no single service: up."""

from pathlib import Path

import typer


def up(
    home: Path = typer.Option(Path("runs"), help="Folder for runs, logs and Valkey's files."),
    workers: int = typer.Option(2, min=1, help="Rollout workers."),
    inference_replicas: int = typer.Option(1, min=1, help="Services that serve the policy."),
) -> None:
    """Start all services and stay until Ctrl-C."""
    import signal
    import time

    from assay_shared.logs import set_up_logging
    from assay_shared.mesh import running_mesh

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    set_up_logging("up", "WARNING")
    # SIGINT too: a shell that starts this in the background has it ignored.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, stop)

    def show(name: str, url: str) -> None:
        print(f"{name:<10} {url}", flush=True)

    try:
        with running_mesh(
            home,
            num_workers=workers,
            usual_ports=True,
            num_inference_replicas=inference_replicas,
            on_ready=show,
        ) as mesh:
            variables = home / "assay.env"
            lines = (f"export {name}={value}\n" for name, value in mesh.environment.items())
            variables.write_text("".join(lines))
            print(f"\nup; in another shell: source {variables}    Ctrl-C stops everything")
            while True:
                mesh.watch()
                time.sleep(0.5)
    except KeyboardInterrupt:
        print("stopped")
