"""Sessions for authorization codes, which always wait for an identity provider (IDENTITY-7)."""

from shared import wiring
from shared.web.app import create_public_app, lambda_handler
from shared.web.sign_in import SignIn

app = create_public_app(SignIn(wiring.from_environment))
handler = lambda_handler(app)
