"""Sessions for authorization codes, which always wait for an identity provider (IDENTITY-7)."""

from shared import wiring
from shared.web.app import lambda_handler
from shared.web.gate import Keyless, keyless
from shared.web.sign_in import SignIn
from shared.web.strangers import AnonymousLimiter

app = keyless(
    SignIn(wiring.from_environment),
    Keyless(AnonymousLimiter(wiring.now), wiring.trusted_proxies, {"Cache-Control": "no-store"}),
)
handler = lambda_handler(app)
