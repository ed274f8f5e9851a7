"""Which authorities a client trusts."""

import ssl


def client_tls(cafile: str | None = None, capath: str | None = None) -> ssl.SSLContext:
    """TLS for a client, which checks the server's name.

    Args:
        cafile: PEM file of the authorities; those of the system where neither is given.
        capath: a folder of such files.

    Raises:
        OSError: they cannot be read, or are none.
    """
    context = ssl.create_default_context(cafile=cafile, capath=capath)
    if cafile or capath:
        # Python does so from 3.13 on, and many a company's authority lacks a key's use or id.
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    return context
