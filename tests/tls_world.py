"""A certificate for a name, made by OpenSSL, and a server's side that shows it."""

import ssl
import subprocess
from pathlib import Path


def certified(folder: Path, name: str) -> tuple[ssl.SSLContext, Path]:
    """What a server of this name needs, and the certificate that a client must trust."""
    key, certificate = folder / "key.pem", folder / "cert.pem"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", f"/CN={name}"]
    command += ["-addext", f"subjectAltName=DNS:{name}", "-keyout", str(key), "-out", str(certificate)]
    subprocess.run(command, check=True, capture_output=True)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate, key)
    return context, certificate
