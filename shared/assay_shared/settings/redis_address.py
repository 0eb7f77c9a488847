"""The address of Redis, joined from its parts: clients take one URL, and secrets come apart."""

from pathlib import Path
from urllib.parse import parse_qsl, quote, urlencode, urlsplit


def redis_address(
    url: str, username: str | None, password: str | None, ca_file: Path | None
) -> str:
    """Return `url` with user and password, which may hold any character, and its certificates.

    Over TLS the server's certificate is always checked: Celery's client takes any certificate
    unless the URL says otherwise.

    Raises:
        ValueError: the parts do not go together, or there is no such file.
    """
    parts = urlsplit(url)
    if username or password:
        if "@" in parts.netloc:
            raise ValueError("the URL holds a user or password; give it there or apart, not both")
        if parts.scheme not in ("redis", "rediss"):
            raise ValueError("a user or password apart needs redis:// or rediss://")
        user = f"{quote(username or '', safe='')}:{quote(password or '', safe='')}"
        parts = parts._replace(netloc=f"{user}@{parts.netloc}")
    if ca_file is not None and parts.scheme != "rediss":
        raise ValueError("ASSAY_REDIS_CA_FILE needs rediss://")
    if parts.scheme == "rediss":
        query = dict(parse_qsl(parts.query))
        query.setdefault("ssl_cert_reqs", "required")
        if ca_file is not None:
            if not ca_file.is_file():
                raise ValueError(f"ASSAY_REDIS_CA_FILE: there is no file {ca_file}")
            query["ssl_ca_certs"] = str(ca_file)
        parts = parts._replace(query=urlencode(query))
    return parts.geturl() if parts.scheme in ("redis", "rediss") else url
