"""What `sam local` makes of the template and of requests; run by the SAM CLI's own Python.

    gateway.py functions TEMPLATE ENVIRONMENT   the functions as JSON: code, handler, variables
    gateway.py serve TEMPLATE PORT              the API; on standard input, where functions answer

The classes are those behind `sam local start-api`. They are not public: the version is pinned. In
place of a container, a function is the address of an emulator that runs it.
"""

import json
import sys
import threading
import urllib.request
from pathlib import Path
from typing import Any

from samcli.lib.providers.api_provider import ApiProvider
from samcli.lib.providers.sam_function_provider import SamFunctionProvider
from samcli.lib.providers.sam_stack_provider import SamLocalStackProvider
from samcli.local.apigw.local_apigw_service import LocalApigwService
from samcli.local.lambdafn.env_vars import EnvironmentVariables

_PARAMETERS = {"Stage": "local"}
_HOST = "127.0.0.1"
_SECONDS = 60


def main(command: str, template: str, argument: str) -> None:
    stacks, _ = SamLocalStackProvider.get_stacks(template, parameter_overrides=_PARAMETERS)
    if command == "functions":
        given = json.loads(Path(argument).read_text())
        # As SAM does: what is given for a function counts before what is given for all.
        overrides = {
            each.name: given["Parameters"] | given.get(each.name, {}) for each in functions(stacks)
        }
        print(json.dumps([described(each, overrides[each.name]) for each in functions(stacks)]))
    else:
        serve(stacks, int(argument), Runner(json.load(sys.stdin)))


def functions(stacks: Any) -> Any:
    return SamFunctionProvider(stacks, use_raw_codeuri=False).get_all()


def described(function: Any, overrides: dict[str, str]) -> dict[str, Any]:
    variables = EnvironmentVariables(
        function.name,
        function.memory,
        function.timeout,
        function.handler,
        variables=(function.environment or {}).get("Variables"),
        override_values=overrides,
    )
    return {
        "name": function.name,
        "code": function.codeuri,
        "handler": function.handler,
        "timeout": function.timeout,
        "variables": variables.resolve(),
    }


def serve(stacks: Any, port: int, runner: "Runner") -> None:
    api = ApiProvider(stacks, cwd=str(Path.cwd()))
    service = LocalApigwService(api=api.api, lambda_runner=runner, port=port, host=_HOST)
    service.create()
    service.run()


class Runner:
    """Stands where SAM runs a function in a container."""

    def __init__(self, addresses: dict[str, str]) -> None:
        self._addresses = addresses
        # An emulator takes one event at a time, as a container does; SAM would start another.
        self._turns = {name: threading.Lock() for name in addresses}

    def invoke(self, name: str, event: str, stdout: Any, **_: Any) -> None:
        request = urllib.request.Request(self._addresses[name], event.encode())
        with self._turns[name], urllib.request.urlopen(request, timeout=_SECONDS) as answer:
            stdout.write_str(answer.read().decode())

    def is_debugging(self) -> bool:
        return False


if __name__ == "__main__":
    main(*sys.argv[1:])
