"""`python deploy/pin_images.py --registry HOST [IMAGE...]`: the present digest of each image's tag.

Prints a line for each image of the Dockerfiles, the compose file and the chart (or for the images
named): NAME@sha256:..., with its tag as a comment. With --environment it prints the variables of
`docker compose` and `make images` (PYTHON_IMAGE=..., ASSAY_REDIS_IMAGE=...), for .env. HOST is
the registry of images without one in their name. A digest is compared with its manifest. Ends with
1 if a registry does not answer.
"""

import argparse
import asyncio
import hashlib
import re
import sys
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlencode

import aiohttp

_ROOT = Path(__file__).parents[1]
#: Lists of all platforms' manifests first: a digest of one platform would run on that alone.
_ACCEPTED = ", ".join(
    (
        "application/vnd.oci.image.index.v1+json",
        "application/vnd.docker.distribution.manifest.list.v2+json",
        "application/vnd.oci.image.manifest.v1+json",
        "application/vnd.docker.distribution.manifest.v2+json",
    )
)
_MAX_BYTES = 4 * 2**20
_TIMEOUT = aiohttp.ClientTimeout(total=60)
_CHALLENGE = re.compile(r'(\w+)="([^"]*)"')


class Image(NamedTuple):
    """An image as a Dockerfile names it."""

    registry: str
    repository: str
    tag: str

    @classmethod
    def parse(cls, text: str, default: str) -> "Image":
        """Read registry/repository:tag; without a registry it is `default`."""
        first, slash, rest = text.partition("/")
        is_host = bool(slash) and ("." in first or ":" in first or first == "localhost")
        registry, path = (first, rest) if is_host else (default, text)
        repository, _, tag = path.partition(":")
        if not is_host and "/" not in repository:
            repository = f"library/{repository}"
        return cls(registry, repository, tag or "latest")


class PinFailed(Exception):
    """A registry does not give the digest of a tag."""


def main() -> None:
    """Ask for all images at once, and print the answers."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--registry", required=True, help="of images that name none")
    parser.add_argument("images", nargs="*", help="all that the repository names, without them")
    parser.add_argument("--environment", action="store_true", help="print variables for .env")
    parser.add_argument("--insecure", action="store_true", help="ask over HTTP: on this machine")
    given = parser.parse_args()
    named = dict.fromkeys(given.images, "") or images_of_the_repository(_ROOT)
    scheme = "http" if given.insecure else "https"
    images = [Image.parse(name, given.registry) for name in named]
    has_failed = False
    for name, found in zip(named, asyncio.run(find_digests(images, scheme)), strict=True):
        if isinstance(found, BaseException):
            has_failed = True
            print(f"{name}: {type(found).__name__}: {found}", file=sys.stderr)
            continue
        pinned = f"{_without_tag(name)}@{found}"
        if not given.environment:
            print(f"{pinned}  # {name}")
        elif named[name]:
            print(f"{named[name]}={pinned}")
    sys.exit(1 if has_failed else 0)


def images_of_the_repository(root: Path) -> dict[str, str]:
    """Return each image not built here, with the variable to replace it."""
    found: dict[str, str] = {}
    for file in sorted(root.glob("services/*/Dockerfile")):
        for variable, name in re.findall(r"^ARG (\w+_IMAGE)=(\S+)", file.read_text(), re.MULTILINE):
            found[name] = variable
    compose = (root / "docker-compose.yml").read_text()
    for variable, name in re.findall(r"image: \$\{(\w+_IMAGE):-([^${}\s]+)\}", compose):
        found[name] = variable
    values = (root / "k8s/assay/values.yaml").read_text()
    for name in re.findall(r"^\s+image: ([\w./-]+:[\w.-]+)", values, re.MULTILINE):
        found.setdefault(name, "")
    return found


async def find_digests(images: list[Image], scheme: str) -> list[str | BaseException]:
    """Return the digest of each image, or why there is none."""
    async with aiohttp.ClientSession(timeout=_TIMEOUT) as session:
        asked = (find_digest(session, image, scheme) for image in images)
        return await asyncio.gather(*asked, return_exceptions=True)


async def find_digest(session: aiohttp.ClientSession, image: Image, scheme: str) -> str:
    """Return the present digest of a tag, and check it against the manifest.

    Raises:
        PinFailed: there is no such tag, or the registry's answers contradict each other.
        aiohttp.ClientError: the registry cannot be reached.
    """
    url = f"{scheme}://{image.registry}/v2/{image.repository}/manifests/{image.tag}"
    headers = {"accept": _ACCEPTED}
    for attempt in range(2):
        async with session.get(url, headers=headers) as response:
            if response.status == 401 and attempt == 0:
                challenge = response.headers.get("www-authenticate", "")
                token = await _ask_for_token(session, challenge)
                headers["authorization"] = f"Bearer {token}"
                continue
            if response.status != 200:
                raise PinFailed(f"the registry answered {response.status}")
            body = await response.content.read(_MAX_BYTES + 1)
            named = response.headers.get("docker-content-digest", "")
            digest = f"sha256:{hashlib.sha256(body).hexdigest()}"
            if len(body) > _MAX_BYTES or named not in ("", digest):
                raise PinFailed(f"the manifest has {digest}, and the registry says {named}")
            return digest
    raise PinFailed("the registry wants a login")


async def _ask_for_token(session: aiohttp.ClientSession, challenge: str) -> str:
    """Return the token of a registry for anonymous readers."""
    fields = dict(_CHALLENGE.findall(challenge))
    if "realm" not in fields:
        raise PinFailed("the registry wants a login")
    query = urlencode({key: fields[key] for key in ("service", "scope") if key in fields})
    async with session.get(f"{fields['realm']}?{query}") as response:
        if response.status != 200:
            raise PinFailed(f"the registry's tokens answered {response.status}")
        answer = await response.json()
    token = answer.get("token") or answer.get("access_token")
    if not isinstance(token, str):
        raise PinFailed("the registry gave no token")
    return token


def _without_tag(name: str) -> str:
    head, slash, last = name.rpartition("/")
    return f"{head}{slash}{last.partition(':')[0]}"


if __name__ == "__main__":
    main()
