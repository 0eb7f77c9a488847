"""Starts TensorZero's HTTP gateway from its Python package, in an environment with the package.

/path/to/venv/bin/python bench/tensorzero_gateway.py tensorzero.toml
"""

import signal
import sys

from tensorzero import _start_http_gateway


def main() -> None:
    gateway = _start_http_gateway(
        config_file=sys.argv[1],
        clickhouse_url=None,
        postgres_url=None,
        valkey_url=None,
        async_setup=False,
    )
    print(f"listening on {gateway.base_url.removesuffix('/openai/v1')}", flush=True)
    signal.pause()


if __name__ == "__main__":
    main()
