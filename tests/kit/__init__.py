"""What the tests of several rooms share: no module here has a test, or imports a room's.

- a world: `worlds aws sqlite_files disks surroundings`
- people and what they do: `api tenants tour feeds fleets`; the rows of all `endpoints`
- what passes the ports: `intercepted faults scheduler reads calls recorded_calls`
- what stands outside: `asgi lambda_events receivers sockets processes loaded artefact rie browsers`
- what is looked at: `log_lines sealed_log reserved`; what is waited for: `waiting`
"""
