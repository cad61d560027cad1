"""The native signer over HTTP (NATIVE-2)."""

from functions.authorizers.stock_schemas import NativeKey
from shared.operations.fleet import native_list
from shared.web.routes import ApiRequest, router, serves

routes = router("Authorizers")


@routes.get("/v1/authorizers/native-signer")
@serves(native_list.signer)
async def get_native_signer(here: ApiRequest) -> NativeKey:
    """Get the key that signs lists for unmodified `tenuo` authorizers.

    Each tenant has one. It is made with the first request, and never replaced.
    """
    return NativeKey.of(here.run(native_list.signer))
