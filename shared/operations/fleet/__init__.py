"""Operations on authorizers, their reports, and the propagation of a revocation."""
