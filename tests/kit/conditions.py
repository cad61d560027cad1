"""Values of `If-None-Match`. `{etag}` is the tag of the content, `{bare}` has no quotes."""

from typing import Final

HELD: Final = (
    "{etag}",
    "W/{etag}",
    "*",
    '"other", {etag}',
    '{etag},"other"',
    'W/"other" ,  W/{etag}',
    " {etag} ",
    # What proxies make of a tag when they compress: Apache and Caddy, nginx, Jetty, others.
    '"{bare}-gzip"',
    '"{bare}-br"',
    '"{bare}-zstd"',
    '"{bare}-deflate"',
    'W/"{bare}-gzip"',
    '"{bare}--gzip"',
    '"{bare};gzip"',
    '"other-gzip", "{bare}-gzip"',
)

OTHERS: Final = (
    '"a,*,b"',
    '"a, {bare}, b"',
    '"other", *',
    '"other"',
    "{bare}",
    '"{bare}',
    "",
    ",",
    "''",
    "W/",
    '"*"',
    '"{bare}x"',
    "x{etag}",
    '"other-gzip"',
    '"{bare}-gzip-gzip"',
    '"{bare}-other"',
    '"{bare}gzip"',
    '"-gzip"',
    '"{bare}-gzip',
)


def condition(form: str, etag: str) -> dict[str, str]:
    """The header with one of these values, for a strong `etag`."""
    return {"If-None-Match": form.format(etag=etag, bare=etag.strip('"'))}
