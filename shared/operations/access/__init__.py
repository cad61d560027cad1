"""Operations on API keys, service accounts and the settings of the tenant."""
