#!/bin/sh
# Base images out of Debian's packages, under the names that the Dockerfiles and the compose file
# ask for: for a machine that reaches a Debian mirror and no registry of images. For trials alone.
#   tests/deploy/compose/stand_ins.sh
# They trust what this machine trusts, for builds behind a proxy with a certificate of its own.
set -eu

python_image=${PYTHON_IMAGE:-python:3.11-slim-bookworm}
redis_image=${ASSAY_REDIS_IMAGE:-redis:7.2-alpine}

has() { docker image inspect "$1" >/dev/null 2>&1; }

if ! has "$python_image"; then
    command -v debootstrap >/dev/null || apt-get install -qq --yes --no-install-recommends debootstrap
    root=$(mktemp -d)
    trap 'rm -rf "$root"' EXIT
    mirror=$(sed -n -E 's/^(deb |URIs: *)(\[[^]]*\] *)?(https?:[^ ]+).*/\3/p' \
        /etc/apt/sources.list /etc/apt/sources.list.d/* 2>/dev/null | grep -v security | head -n 1)
    debootstrap --variant=minbase --include=ca-certificates,python3,python3-pip,python3-venv \
        bookworm "$root" "$mirror" >/dev/null
    rm -f "$root"/usr/lib/python3.11/EXTERNALLY-MANAGED
    ln -s /usr/bin/python3 "$root/usr/local/bin/python"
    ln -s /usr/bin/pip "$root/usr/local/bin/pip"
    cp /etc/apt/sources.list "$root/etc/apt/" 2>/dev/null || true
    cp -r /etc/apt/sources.list.d "$root/etc/apt/" 2>/dev/null || true
    cp -r /usr/local/share/ca-certificates "$root/usr/local/share/" 2>/dev/null || true
    chroot "$root" update-ca-certificates >/dev/null 2>&1
    rm -rf "$root"/var/lib/apt/lists/* "$root"/var/cache/apt/*.deb "$root"/var/cache/apt/archives/*.deb
    bundle=/etc/ssl/certs/ca-certificates.crt
    tar -C "$root" -c . | docker import --change "ENV PIP_CERT=$bundle SSL_CERT_FILE=$bundle" \
        --change 'CMD ["python3"]' - "$python_image" >/dev/null
    echo "made $python_image"
fi

if ! has "$redis_image"; then
    # The same user, volume and command line as the original's.
    docker build --quiet --tag "$redis_image" - >/dev/null <<DOCKERFILE
FROM $python_image
RUN groupadd --gid 1000 redis && useradd --uid 999 --gid 1000 redis \\
    && apt-get update -qq && apt-get install -qq --yes --no-install-recommends redis-server \\
    && rm -rf /var/lib/apt/lists/* && mkdir /data && chown redis:redis /data
VOLUME /data
WORKDIR /data
CMD ["redis-server"]
DOCKERFILE
    echo "made $redis_image"
fi
