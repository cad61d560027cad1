"""Libraries for tokens of others as peers, in an environment of its own (`.tools/tokens`).

    python tests/tools/tokens_peer.py make|introspect|status < request.json > answer.json

`make` makes a Biscuit and a certificate, and answers kind, issuer and value of each. `introspect`
asks a service about tokens, with the key of a request as a password, and answers what it says.
`status` reads entries of a status list.
"""

import datetime as dt
import hashlib
import json
import sys
from typing import Any

from authlib.integrations.requests_client import OAuth2Session
from biscuit_auth import BiscuitBuilder, KeyPair
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID
from token_status_list import BitArray, b64url_decode


def make(_: dict[str, Any]) -> Any:
    """Tokens that the libraries made, as the kinds name them."""
    pair = KeyPair()
    biscuit = BiscuitBuilder('user("ann")').build(pair.private_key)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "Acme CA")])
    now = dt.datetime.now(dt.UTC)
    signer = Ed25519PrivateKey.generate()
    certificate = (
        x509.CertificateBuilder(name, name, signer.public_key(), x509.random_serial_number())
        .not_valid_before(now)
        .not_valid_after(now + dt.timedelta(hours=1))
        .sign(signer, None)
    )
    parsed = x509.load_pem_x509_certificate(certificate.public_bytes(Encoding.PEM))
    issuer = hashlib.sha256(parsed.issuer.public_bytes()).hexdigest()
    return [
        *({"kind": "biscuit", "issuer": "", "value": each} for each in biscuit.revocation_ids),
        {"kind": "x509", "issuer": issuer, "value": f"{parsed.serial_number:x}"},
    ]


def introspect(request: dict[str, Any]) -> Any:
    """What the service says of each token: its claims, or an error of OAuth."""
    session = OAuth2Session("gateway", request["secret"])
    answers = (session.introspect_token(request["url"], each) for each in request["tokens"])
    return [each.json() for each in answers]


def status(request: dict[str, Any]) -> Any:
    """The size of a signed status list, and its entries at the indexes of the request."""
    claims = json.loads(b64url_decode(request["list"].split(".")[1].encode()))
    found = BitArray.load(claims["status_list"])
    return [len(found), [int(found[each]) for each in request["indexes"]]]


if __name__ == "__main__":
    run = {"make": make, "introspect": introspect, "status": status}[sys.argv[1]]
    json.dump(run(json.load(sys.stdin)), sys.stdout)
