#!/bin/sh
# deploy/sign.sh IMAGE@sha256:DIGEST EXTRA: sign a pushed image, and attest what it consists of.
#
# IMAGE has to be named by its digest: a tag may stand for another image tomorrow. EXTRA is the part of
# Assay in it (sandbox, judge, reward, inference, worker, trainer); `make sbom` wrote its list. Needs
# cosign (https://docs.sigstore.dev), and a key in COSIGN_KEY, or none for a signature by an identity.
set -eu
image=${1:?name the image by its digest}
extra=${2:?name the extra whose list is attested}
case $image in
    *@sha256:????????????????????????????????????????????????????????????????) ;;
    *) echo "$image is not named by its digest: IMAGE@sha256:..." >&2; exit 2 ;;
esac
list=$(dirname "$0")/../sbom/$extra.cdx.json
[ -s "$list" ] || { echo "there is no $list: run make sbom" >&2; exit 2; }
command -v cosign >/dev/null || { echo "cosign is not installed" >&2; exit 2; }
set -- --yes
[ -z "${COSIGN_KEY:-}" ] || set -- "$@" --key "$COSIGN_KEY"
cosign sign "$@" "$image"
cosign attest "$@" --type cyclonedx --predicate "$list" "$image"
