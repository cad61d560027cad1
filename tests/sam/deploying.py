"""`sam` for an emulator that has no transform: what CloudFormation would expand is expanded here.

    deploying.py deploy --stack-name s …

The command is SAM's own; only the template of a change set is another one when it is sent. The
classes are not public: the version is pinned.
"""

import json
from typing import Any
from unittest import mock
from urllib.parse import urlsplit

import boto3
import botocore.handlers
from samcli.cli.main import cli
from samcli.yamlhelper import yaml_parse
from samtranslator.public.translator import ManagedPolicyLoader
from samtranslator.translator.transform import transform


def expand(params: dict[str, Any], **_: Any) -> None:
    """Put the expanded template into a request for a change set."""
    given = {each["ParameterKey"]: each.get("ParameterValue") for each in params["Parameters"]}
    values = {name: value for name, value in given.items() if value is not None}
    if "TemplateBody" in params:
        params["TemplateBody"] = _expanded(params["TemplateBody"], values)
        return
    # Too long to be sent whole, it is beside what SAM has put into its bucket.
    bucket, key = urlsplit(params["TemplateURL"]).path.lstrip("/").split("/", 1)
    client = boto3.client("s3")
    body = client.get_object(Bucket=bucket, Key=key)["Body"].read().decode()
    client.put_object(Bucket=bucket, Key=f"{key}.expanded", Body=_expanded(body, values).encode())
    params["TemplateURL"] += ".expanded"


def _expanded(body: str, values: dict[str, str]) -> str:
    loader = mock.create_autospec(ManagedPolicyLoader, instance=True)
    loader.load.return_value = {}
    return json.dumps(transform(yaml_parse(body), values, loader))


if __name__ == "__main__":
    botocore.handlers.BUILTIN_HANDLERS.append(
        ("provide-client-params.cloudformation.CreateChangeSet", expand)
    )
    cli(prog_name="sam")
