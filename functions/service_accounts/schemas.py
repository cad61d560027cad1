"""Bodies of the service account endpoints (decisions 3, service accounts)."""

from typing import Annotated, Self

from pydantic import AfterValidator

from shared.model import service_accounts
from shared.model.service_accounts import ServiceAccount, Status
from shared.operations.paging import Page
from shared.web.fields import MomentOut, Reason, RecordBody, RequestBody, ResponseBody, example

AccountName = Annotated[str, AfterValidator(service_accounts.name)]


class CreateServiceAccount(RequestBody):
    """The body of POST /v1/service-accounts; a description keeps to the rules of a reason."""

    model_config = example(name="billing", description="Signs invoices")

    name: AccountName
    description: Reason | None = None


class ServiceAccountFields(RecordBody):
    """A service account."""

    id: str
    name: str
    email: str
    description: str | None
    status: Status
    created_at: MomentOut


class ServiceAccountList(ResponseBody):
    """A page of service accounts."""

    service_accounts: list[ServiceAccountFields]
    total: int
    cursor: str | None

    @classmethod
    def of(cls, page: Page[ServiceAccount], *, cursor: str | None) -> Self:
        """The page, with the cursor to the next."""
        accounts = [ServiceAccountFields.of(account) for account in page.entries]
        return cls(service_accounts=accounts, total=page.total, cursor=cursor)
