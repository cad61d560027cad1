"""What concerns a tenant as a whole, and what befalls the service: time, and crashes."""

from urllib.parse import quote

from hypothesis import strategies as st

from tests.state_machine.attempts import OK, READERS, Done
from tests.state_machine.books import Entry, Fields
from tests.state_machine.machine import Machine, step
from tests.state_machine.recount import entries
from tests.state_machine.service import INSTANCES, How
from tests.state_machine.strategies import HANDLE, HOW

_CHANGES = st.fixed_dictionaries(
    {},
    optional={
        "name": st.sampled_from(["One", "Two"]),
        "srl_ttl_seconds": st.sampled_from([300, 900, 7200]),
        "audit_retention_days": st.sampled_from([90, 400]),
        "rotation_grace_seconds": st.sampled_from([0, 60]),
        "feed_window_ms": st.sampled_from([0, 500]),
        "list_publication": st.sampled_from(["scheduled", "follow"]),
    },
)


class TenantRules(Machine):
    """What can be done with a tenant, and to the service."""

    @step(handle=HANDLE, how=HOW, changes=_CHANGES)
    def update_settings(self, handle: str, how: How, changes: Fields) -> None:
        """What is changed is so at once; what is so already is not written."""
        books, path = self.books[handle], "/v1/tenant/settings"

        def effect(done: Done) -> None:
            if books.settings != books.settings | changes:
                books.settings |= changes
                books.has_grace |= "rotation_grace_seconds" in changes
                if not books.has_grace:
                    lifetime = books.settings["srl_ttl_seconds"]
                    books.settings["rotation_grace_seconds"] = lifetime
                books.enter("tenant.update_settings", books.id, done.actor)
            assert done.fields == books.settings

        def evidence() -> Fields | None:
            answered: Fields = self.ask(books, path).json()
            return None if answered == books.settings else answered

        self.attempt(
            books, how, "PATCH", path, lambda _: OK, body=changes, effect=effect, evidence=evidence
        )

    @step(handle=HANDLE, how=HOW)
    def read_settings(self, handle: str, how: How) -> None:
        """The settings, with no field of another tenant's."""
        books = self.books[handle]

        def effect(done: Done) -> None:
            assert done.fields == books.settings

        self.attempt(
            books,
            how,
            "GET",
            "/v1/tenant/settings",
            lambda _: OK,
            scopes=READERS,
            effect=effect,
        )

    @step(handle=HANDLE, limit=st.integers(1, 9), field=st.sampled_from(Entry._fields))
    def read_audit_log(self, handle: str, limit: int, field: str) -> None:
        """Every entry that matches, once, however small the pages."""
        books = self.books[handle]
        wanted = getattr(max(books.entries), field)
        found = entries(
            self.ask_of(books),
            (self.earliest, self.latest),
            query=f"&{field}={quote(wanted)}",
            limit=limit,
        )
        expected = {each: n for each, n in books.entries.items() if getattr(each, field) == wanted}
        assert found == expected
        self.count_success()

    @step(seconds=st.sampled_from([1, 61, 600, 1800, 6 * 3600]))
    def go_on(self, seconds: int) -> None:
        """Time passes."""
        self.clock.advance(seconds=seconds)
        self.touched.update(self.books)
        self.count_success()

    @step(instance=st.integers(0, INSTANCES - 1))
    def restart(self, instance: int) -> None:
        """An instance dies between two requests."""
        self.service.restart(instance)
        self.count_success()
