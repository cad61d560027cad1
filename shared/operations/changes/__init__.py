"""Operations on warrants, signing keys, revocations, list signers, lists and the feed."""
