"""What SAM reads out of the template, parameters and its configuration; run by its own Python.

    reading.py images TEMPLATE OVERRIDE…     what `sam local` starts for each function, as JSON
    reading.py versions TEMPLATE OVERRIDE…   the versions that a deployment publishes, as JSON
    reading.py kinds TEMPLATE                the kinds of resources that it becomes, as JSON
    reading.py command ARGUMENT…             the options that a command would run with, as JSON
    reading.py events METHOD PATH SECRET     a request's events, formats 1.0 and 2.0, as JSON

An OVERRIDE is one value of `--parameter-overrides`. The classes are those behind the commands. They
are not public: the version is pinned.
"""

import inspect
import json
import sys
from pathlib import Path
from typing import Any
from unittest import mock

from flask import Flask, request
from samcli.cli.main import cli
from samcli.cli.types import CfnParameterOverridesType
from samcli.lib.providers.sam_function_provider import SamFunctionProvider
from samcli.lib.providers.sam_stack_provider import SamLocalStackProvider
from samcli.local.apigw.event_constructor import construct_v1_event, construct_v2_event_http
from samcli.local.apigw.route import Route
from samcli.local.docker.lambda_image import Runtime
from samcli.local.docker.utils import get_docker_platform
from samcli.yamlhelper import yaml_parse
from samtranslator.public.translator import ManagedPolicyLoader
from samtranslator.translator.transform import transform


def images(template: str, *overrides: str) -> dict[str, list[str]]:
    stacks, _ = SamLocalStackProvider.get_stacks(template, parameter_overrides=_read(overrides))
    functions = SamFunctionProvider(stacks, use_raw_codeuri=False).get_all()
    return {each.name: _image(each.runtime, each.architecture) for each in functions}


def _image(runtime: str, architecture: str) -> list[str]:
    image = Runtime.get_image_name_tag(runtime, architecture)
    return [architecture, image, get_docker_platform(architecture)]


def versions(template: str, *overrides: str) -> list[str]:
    made = _transformed(Path(template).read_text(), _read(overrides))
    return sorted(name for name, each in made.items() if each["Type"] == "AWS::Lambda::Version")


def kinds(template: str) -> list[str]:
    packaged = Path(template).read_text().replace(".build/app", "s3://bucket/key")
    return sorted({each["Type"] for each in _transformed(packaged, {"Stage": "s"}).values()})


def _transformed(written: str, parameters: dict[str, str]) -> dict[str, dict[str, Any]]:
    loader = mock.create_autospec(ManagedPolicyLoader, instance=True)
    loader.load.return_value = {}
    made: dict[str, dict[str, Any]] = transform(yaml_parse(written), parameters, loader)
    return made["Resources"]


def command(*arguments: str) -> dict[str, Any]:
    """The options, as they are after the configuration was read; the command itself is not run."""
    (target,) = (where for name, where in _RUNS.items() if " ".join(arguments).startswith(name))
    with mock.patch(target, autospec=True) as run:
        cli.main(list(arguments), prog_name="sam", standalone_mode=False)
    called = inspect.signature(run).bind(*run.call_args.args, **run.call_args.kwargs)
    return called.arguments


# What each command calls once it has read its options.
_RUNS = {
    "build": "samcli.commands.build.command.do_cli",
    "deploy": "samcli.commands.deploy.command.do_cli",
    "local invoke": "samcli.commands.local.invoke.cli.do_cli",
    "local start-api": "samcli.commands.local.start_api.cli.do_cli",
}


def events(method: str, path: str, secret: str) -> list[dict[str, Any]]:
    """As `sam local start-api` makes them of a request with an API key."""
    server = Flask(__name__)
    server.add_url_rule("/<path:proxy>", "/{proxy+}", methods=[method])
    headers = {"Authorization": f"Bearer {secret}"}
    with server.test_request_context(path, method=method, headers=headers):
        return [
            construct_v1_event(request, 443, [], "$default", api_type=Route.HTTP),
            construct_v2_event_http(request, 443, [], "$default", route_key="$default"),
        ]


def _read(overrides: tuple[str, ...]) -> dict[str, str]:
    read: dict[str, str] = CfnParameterOverridesType().convert(overrides, None, None)
    return read


if __name__ == "__main__":
    print(json.dumps(globals()[sys.argv[1]](*sys.argv[2:]), default=repr))
