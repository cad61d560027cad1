"""Operations of the operator, who runs them at the command line."""
