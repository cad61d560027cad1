"""A witness of sealed logs: it signs that each checkpoint extends those before (C2SP tlog-witness).

It has its own data, and shares nothing with the service but formats.
"""
