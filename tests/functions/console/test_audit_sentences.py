"""The console's sentences for the audit log."""

import re

from functions.console.files import STATIC
from shared.model.audit.audit_log import AuditAction


def test_each_action_has_a_sentence() -> None:
    """F480a: The audit page says every action of the service in words, and no other."""
    text = (STATIC / "components/audit_sentences.js").read_text()
    assert set(re.findall(r"^  '([a-z_.]+)': \['", text, re.MULTILINE)) == set(AuditAction)
