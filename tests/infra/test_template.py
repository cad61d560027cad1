"""`template.yaml` says what the code says: names, settings, routes, limits; and holds no data."""

import json
import re
from typing import Any, Final

import pytest

from functions.transparency_log import head
from functions.webhooks import delivery
from functions.webhooks import records as webhooks
from infra import build
from infra.server.routers import ROUTERS
from shared.capabilities import INSTALLED
from shared.model.rate_limit import BURST, RATE_PER_SECOND
from shared.ports.outside import OUTBOUND_PATIENCE_SECONDS, SENDER_PATIENCE_SECONDS
from shared.settings import base_path
from tests.infra.templates import (
    ALARMS,
    GLOBALS,
    LAMBDAS,
    RESOURCES,
    SECOND,
    entry_point,
    events,
    of_kind,
    statements,
    variables,
)
from tests.kit.aws import FUNCTIONS, REGION, STAGE, STATEFUL, stack, template, written
from tests.kit.endpoints import at
from tests.kit.processes import ROOT

DATA: Final = ("AWS::DynamoDB::", "AWS::KMS::", "AWS::S3::")

each_function = pytest.mark.parametrize("name", LAMBDAS)


# --- functions ---


def test_each_handler_is_deployed_once() -> None:
    """What is in `functions/` is deployed, and nothing else is."""
    modules = (ROOT / "functions").glob("*/*handler.py")
    handlers = [f"functions.{each.parent.name}.{each.stem}.handler" for each in modules]
    assert sorted(each["Handler"] for each in LAMBDAS.values()) == sorted(handlers)


@each_function
def test_a_function_is_named_after_its_folder(name: str) -> None:
    """Function, role and log group have the folder's name, so that each is found from the other.

    A second entry point of a folder has the name of its module. F103: roles are of the whole
    account, so that a role's name has the region in it.
    """
    own = f"rescind-{STAGE}-{entry_point(name).replace('_', '-')}"
    function, role, logs = (
        RESOURCES[each]["Properties"] for each in (name, f"{name}Role", f"{name}Logs")
    )
    _, folder, module, _ = function["Handler"].split(".")
    expected = folder if module == "handler" else module.removesuffix("_handler")
    assert entry_point(name) == expected
    assert (function["FunctionName"], role["RoleName"]) == (own, f"{own}-{REGION}")
    assert logs["LogGroupName"] == f"/aws/lambda/{own}"
    assert function["Role"] == f"{name}Role.Arn"
    logging = {"LogGroup": f"{name}Logs"} | ({"SystemLogLevel": "WARN"} if name == "Feed" else {})
    assert function["LoggingConfig"] == logging


@each_function
def test_a_function_is_published_as_it_was_built(name: str) -> None:
    """SAM takes the one artefact as it is, and callers reach a version with all of its settings."""
    assert RESOURCES[name]["Metadata"] == {"SkipBuild": True}
    assert LAMBDAS[name]["CodeUri"] == ".build/app"
    assert LAMBDAS[name]["AutoPublishAliasAllProperties"] is True
    assert GLOBALS["AutoPublishAlias"] == "live"


@each_function
def test_a_snapshot_is_kept_only_where_somebody_waits(name: str) -> None:
    """F107b: Only the functions that serve checks and lists start from a snapshot."""
    snapshot = LAMBDAS[name].get("SnapStart", GLOBALS.get("SnapStart"))
    waited_for = name in {"Feed", "Revocations"}
    assert snapshot == ({"ApplyOn": "PublishedVersions"} if waited_for else None)


def test_the_access_log_holds_nothing_that_a_caller_wrote() -> None:
    """A path, a query or a header may hold a secret; a route and a method do not."""
    written = RESOURCES["Api"]["Properties"]["AccessLogSettings"]["Format"]
    given = set(re.findall(r"[$]context[.]([A-Za-z.]+)", written))
    assert "routeKey" in given
    assert not {name for name in given if "path" in name.lower() or "header" in name.lower()}


def test_requests_cannot_stop_the_publications() -> None:
    """F109a: Requests cannot take the concurrency that the publications need."""
    parameters = template(FUNCTIONS)["Parameters"]
    assert parameters["ReserveConcurrency"]["Default"] == "false"
    publications = int(parameters["PublicationConcurrency"]["Default"])
    codes = int(parameters["SignInCodeConcurrency"]["Default"])
    reserved = {
        name: function["ReservedConcurrentExecutions"]["Fn::If"]
        for name, function in LAMBDAS.items()
        if "ReservedConcurrentExecutions" in function
    }
    _, small, most = _bounds("SrlPublication", "SQS")
    _, few, lanes = _bounds("FeedPublication", "DynamoDB")
    _, least, _ = _bounds("WebhookDelivery", "SQS")
    assert reserved == {
        "FeedPublication": ["IsReserved", _SHARDS * lanes, "AWS::NoValue"],
        "SrlSchedule": ["IsReserved", 2, "AWS::NoValue"],
        "SrlPublication": ["IsReserved", str(most), "AWS::NoValue"],
        "SignInCode": ["IsReserved", str(codes), "AWS::NoValue"],
    }
    # Lambda keeps 100 for all other functions, and as many are left for requests.
    enough = _SHARDS * lanes + 2 + publications + codes + 100 + 100
    assert f"ConcurrentExecutions >= `{enough}`" in (ROOT / "docs" / "deploy.md").read_text()
    # In a new account nothing can be reserved, and two are left for requests.
    account = int(parameters["AccountConcurrency"]["Default"])
    assert _SHARDS * few + small + least == account - 2


# Of the stream of a new table on demand.
_SHARDS: Final = 4


def _bounds(name: str, kind_: str) -> tuple[str, int, int]:
    """How many of a function run for what calls it: in a small account, and in another one."""
    (source,) = events(name, kind_)
    bound = source.get("ScalingConfig", {}).get("MaximumConcurrency")
    condition, small, other = (bound or source["ParallelizationFactor"])["Fn::If"]
    assert condition == "IsSmallAccount"
    return condition, int(small), int(other)


@each_function
def test_a_function_ends_in_time(name: str) -> None:
    """A function that a caller waits for ends before the API gives up; no other runs for ever."""
    timeout = LAMBDAS[name].get("Timeout", GLOBALS["Timeout"])
    assert timeout < 30 if events(name, "HttpApi") else timeout <= 900


# --- settings ---


def test_the_template_sets_what_the_code_reads() -> None:
    """No variable is missing or left over; queue and sink are named to those who fill them."""
    modules = set((ROOT / "shared").rglob("*.py")) - set((ROOT / "shared/authorizer").rglob("*.py"))
    code = "".join(each.read_text() for each in modules)
    read = set(re.findall(r"\bRESCIND_[A-Z_]+\b", code))
    # No function is in a network of its own, so none reaches private addresses. The others are of
    # a server, and of PostgreSQL.
    read -= {
        "RESCIND_OUTBOUND_ALLOWED_NETWORKS",
        "RESCIND_LEADER_ELIGIBLE",
        "RESCIND_POSTGRESQL_POOL_SIZE",
        "RESCIND_POSTGRESQL_PREPARE",
        "RESCIND_ROOT_PASSPHRASE_FILE",
    }
    for name in LAMBDAS:
        fills = {"FeedPublication", "SrlSchedule", "WebhookDelivery"}
        left_out = set() if name in fills else {"RESCIND_QUEUE"}
        left_out |= set() if name == "AuditLogSealing" else {"RESCIND_AUDIT_SINK"}
        left_out |= set() if name == "TrustRenewal" else {"RESCIND_ROOT"}
        left_out |= set() if name == "Feed" else {"RESCIND_REQUESTS_PER_LOG_LINE"}
        assert set(variables(name)) == read - left_out


def test_every_setting_can_be_in_the_artefact() -> None:
    """F105: the value of a parameter reaches a running function only with an artefact.

    SAM publishes a version if the code or the text of the template changed. The stage is in every
    name, so that another stage is another function.
    """
    written = (ROOT / FUNCTIONS).read_text().partition("      Variables:\n")[2]
    settings = written.partition("\nResources:")[0]
    named = set(re.findall(r"(?:\$\{|!Ref )(\w+)(?!\w|:)", settings))
    assert named - {"Stage"} == build.SETTINGS


# --- routes ---

ROUTES: Final = {route["Path"]: name for name in LAMBDAS for route in events(name, "HttpApi")}
PATHS: Final = sorted({route.path for router in ROUTERS for route in router.routes})


CONSOLE: Final = ["/", "/console/{proxy+}"]


def reached(path: str) -> str:
    """The function that API Gateway calls: of the path itself, else of the longest way to it."""
    if path in ROUTES:
        return ROUTES[path]
    ways = [route.removesuffix("{proxy+}") for route in ROUTES if route.endswith("{proxy+}")]
    matching = [way for way in ways if path.startswith(way) and path != way]
    return ROUTES[f"{max(matching, key=len)}{{proxy+}}" if matching else "$default"]


def test_a_route_reaches_its_function() -> None:
    """Whatever the code serves, the API passes to the function that serves it."""
    for path in PATHS:
        (owner,) = (router for router in ROUTERS if path in {route.path for route in router.routes})
        module = owner.routes[0].endpoint.__module__
        name = reached(at(path, "svc_x_0"))
        served = [each.routes for each in INSTALLED.routers(entry_point(name))]
        assert module.startswith(f"functions.{entry_point(name)}.") or owner.routes in served, path


def test_the_api_leaves_methods_and_errors_to_the_functions() -> None:
    """405 is ours, so is every header; the one event format is the one that is tested."""
    for name in LAMBDAS:
        # The console is only read; any other method at its paths is a request of the API.
        method = "GET" if name == "Console" else "ANY"
        for route in events(name, "HttpApi"):
            assert route == {"ApiId": "Api", "Path": route["Path"], "Method": method}
    api = RESOURCES["Api"]["Properties"]
    assert not {"Auth", "CorsConfiguration"} & set(api)
    assert api["DisableExecuteApiEndpoint"] == "false"


def test_codes_of_sign_ins_are_isolated() -> None:
    """IDENTITY-10, F2210b: Codes have a function, a short time and a throttle of their own."""
    assert {reached(each) for each in ("/v1/sign-in/code", "/v1/logout/{id}")} == {"SignInCode"}
    assert {reached(each) for each in ("/v1/sign-in", "/v1/token")} == {"SignIn"}
    assert LAMBDAS["SignInCode"]["Timeout"] == 20 > OUTBOUND_PATIENCE_SECONDS
    throttled = RESOURCES["Api"]["Properties"]["RouteSettings"]
    assert throttled == {
        "ANY /v1/sign-in/code": {"ThrottlingRateLimit": 50, "ThrottlingBurstLimit": 100},
        "ANY /v1/logout/{id}": {"ThrottlingRateLimit": 50, "ThrottlingBurstLimit": 100},
    }
    # The other function reads no client secret.
    assert "OpenSecrets" not in {each["Sid"] for each in statements("SignIn")}


def test_a_tenant_meets_its_own_limit_first() -> None:
    """The API's throttle lies above what one tenant may do, so that 429 is of the contract."""
    parameters = template(FUNCTIONS)["Parameters"]
    assert parameters["ThrottleRate"]["MinValue"] >= RATE_PER_SECOND
    assert parameters["ThrottleBurst"]["MinValue"] >= BURST


@pytest.mark.parametrize("value", ["", "auth", "team/auth", "v1.1", "v12", "a_b-c.d"])
def test_a_base_path_of_the_template_is_one_of_the_code(value: str) -> None:
    """F106: what the template takes, the functions take."""
    assert re.fullmatch(template(FUNCTIONS)["Parameters"]["BasePath"]["AllowedPattern"], value)
    assert base_path({"RESCIND_BASE_PATH": value}) == f"/{value}"


@pytest.mark.parametrize("value", ["/auth", "auth/", "a//b", "v1", "v1/keys", "a b", "{proxy+}"])
def test_a_base_path_that_the_code_refuses_is_not_deployed(value: str) -> None:
    """F106b: The template refuses a base path that the functions would refuse."""
    assert not re.fullmatch(template(FUNCTIONS)["Parameters"]["BasePath"]["AllowedPattern"], value)


def test_the_console_can_be_left_out() -> None:
    """F449e: With the parameter `ServeConsole=off`, nothing of the console is deployed."""
    assert [path for path, name in ROUTES.items() if name == "Console"] == CONSOLE
    conditional = {n for n, each in RESOURCES.items() if each.get("Condition") == "HasConsole"}
    assert conditional == {name for name in RESOURCES if name.startswith("Console")}
    assert LAMBDAS["Console"]["MemorySize"] == 128


# --- queues ---


def test_a_message_is_tried_to_the_end() -> None:
    """A message lives for all of its attempts, and no attempt begins while another may go on."""
    queue = RESOURCES["PublicationQueue"]["Properties"]
    attempts = queue["RedrivePolicy"]["maxReceiveCount"]
    assert queue["VisibilityTimeout"] > LAMBDAS["SrlPublication"]["Timeout"]
    assert queue["MessageRetentionPeriod"] > attempts * queue["VisibilityTimeout"]


def test_the_schedule_hands_over_to_the_publication() -> None:
    """F108a: The schedule hands each tenant to a publication of its own."""
    (work,) = events("SrlPublication", "SQS")
    assert variables("SrlSchedule")["RESCIND_QUEUE"] == "sqs:${PublicationQueue}"
    assert work["Queue"] == "PublicationQueue.Arn"
    assert work["BatchSize"] == 1


def test_every_queue_is_encrypted_and_reached_by_tls_only() -> None:
    """F99a: Every queue is encrypted, requires TLS and has a policy of its own.

    SQS's guide to its policies: "Each policy must cover only a single queue (when writing a policy,
    don't include statements that cover different queues)".
    """
    queues = of_kind("AWS::SQS::Queue")
    assert all(queue["SqsManagedSseEnabled"] for queue in queues.values())
    policies = list(of_kind("AWS::SQS::QueuePolicy").values())
    assert sorted(each["Queues"][0] for each in policies) == sorted(queues)
    for policy in policies:
        (queue,) = policy["Queues"]
        (statement,) = policy["PolicyDocument"]["Statement"]
        assert statement["Resource"] == f"{queue}.Arn"
        assert statement["Effect"] == "Deny"
        assert statement["Condition"] == {"Bool": {"aws:SecureTransport": "false"}}


# --- the streams ---


def test_webhooks_are_told_of_sealed_logs() -> None:
    """F398f: On AWS, each growth of a sealed log reaches the webhooks by a stream."""
    (grown,) = events("WebhookDelivery", "DynamoDB")
    (entries,) = events("AuditLogSealing", "DynamoDB")
    assert grown["Stream"] == entries["Stream"]
    (pattern,) = (json.loads(each["Pattern"]) for each in grown["FilterCriteria"]["Filters"])
    assert pattern["eventName"] == ["INSERT", "MODIFY"]
    assert pattern["dynamodb"] == {"Keys": {"sk": {"S": [head.address("svc_tnt_a").sk]}}}
    (work,) = events("WebhookDelivery", "SQS")
    assert variables("WebhookDelivery")["RESCIND_QUEUE"] == "sqs:${WebhookQueue}"
    assert (work["Queue"], work["BatchSize"]) == ("WebhookQueue.Arn", 1)
    queue = RESOURCES["WebhookQueue"]["Properties"]
    assert queue["VisibilityTimeout"] == 6 * LAMBDAS["WebhookDelivery"]["Timeout"]
    # A worker has ended before another one may have its webhook.
    longest = delivery.SLICE_SECONDS + 2 * SENDER_PATIENCE_SECONDS
    assert longest < LAMBDAS["WebhookDelivery"]["Timeout"] < webhooks.LEASE.total_seconds()


def test_the_stream_names_what_is_to_be_sealed() -> None:
    """F333d: New audit entries, and nothing else of their table, are named within seconds."""
    (entries,) = events("AuditLogSealing", "DynamoDB")
    export = stack()["AuditTable"]["Properties"]["StreamSpecification"]
    assert export == {"StreamViewType": "KEYS_ONLY"}
    own = template(STATEFUL)["Outputs"]["AuditStreamArn"]["Export"]["Name"]
    assert entries["Stream"] == {"Fn::If": ["IsRestored", "", own]}
    assert (entries["MaximumBatchingWindowInSeconds"], entries["ParallelizationFactor"]) == (5, 1)
    (pattern,) = (json.loads(each["Pattern"]) for each in entries["FilterCriteria"]["Filters"])
    assert pattern["eventName"] == ["INSERT"]
    pattern = template(FUNCTIONS)["Parameters"]["RestoredAuditStreamArn"]["AllowedPattern"]
    arn = "arn:aws:dynamodb:eu-west-1:123456789012:table/rescind-prod-{}/stream/2026-11-21T10"
    assert re.fullmatch(pattern, arn.format("r1-audit"))
    assert not re.fullmatch(pattern, arn.format("r1-keys"))


def test_the_stream_wakes_the_feed() -> None:
    """F227a: The function of the feed reads the stream of the table of keys, as it comes."""
    (marks,) = events("FeedPublication", "DynamoDB")
    export = stack()["KeysTable"]["Properties"]["StreamSpecification"]
    assert export == {"StreamViewType": "KEYS_ONLY"}
    outputs = template(STATEFUL)["Outputs"]
    assert outputs["KeysStreamArn"]["Value"] == "KeysTable.StreamArn"
    own = outputs["KeysStreamArn"]["Export"]["Name"]
    assert marks["Stream"] == {"Fn::If": ["IsRestored", "", own]}
    assert marks["MaximumBatchingWindowInSeconds"] == 0
    assert marks["StartingPosition"] == "LATEST"


def test_restored_tables_need_a_stream() -> None:
    """F227b: Functions cannot be deployed on restored tables without a stream of theirs."""
    rule = template(FUNCTIONS)["Rules"]["RestoredTablesHaveStream"]
    assert rule["RuleCondition"] == {"Fn::Not": [{"Fn::Equals": ["", ""]}]}
    assert len(rule["Assertions"]) == 2
    for assertion in rule["Assertions"]:
        assert assertion["Assert"] == {"Fn::Not": [{"Fn::Equals": ["", ""]}]}
    pattern = template(FUNCTIONS)["Parameters"]["RestoredStreamArn"]["AllowedPattern"]
    arn = "arn:aws:dynamodb:eu-west-1:123456789012:table/rescind-prod-{}keys/stream/2026-11-21T10"
    assert re.fullmatch(pattern, "")
    assert re.fullmatch(pattern, arn.format("r1-"))
    assert not re.fullmatch(pattern, arn.format(""))


# --- names ---

# The kinds of AWS whose names are of the whole account, whatever the region.
ACCOUNT_WIDE: Final = {
    "AWS::CloudWatch::Dashboard": "DashboardName",
    "AWS::IAM::ManagedPolicy": "ManagedPolicyName",
    "AWS::IAM::Role": "RoleName",
    "AWS::S3::Bucket": "BucketName",
}
LONGEST_STAGE: Final = "s" * 16
LONGEST_REGION: Final = "ap-southeast-1"


def test_a_stage_can_be_in_two_regions_of_one_account() -> None:
    """F103a: A stage can be deployed in two regions of one account."""
    named = [
        resource["Properties"][ACCOUNT_WIDE[resource["Type"]]]
        for path in (FUNCTIONS, STATEFUL, ALARMS)
        for resource in template(path, LONGEST_STAGE)["Resources"].values()
        if resource["Type"] in ACCOUNT_WIDE
    ]
    assert len(named) == len(LAMBDAS) + 4
    for name in named:
        assert REGION in name
        assert len(name.replace(REGION, LONGEST_REGION)) <= 64


@pytest.mark.parametrize("path", [FUNCTIONS, STATEFUL])
def test_no_stage_has_the_tables_that_another_restored(path: str) -> None:
    """F104a: No stage can have the table names that a restore of another stage uses."""
    parameters = template(FUNCTIONS)["Parameters"]
    stage = template(path)["Parameters"]["Stage"]["AllowedPattern"]
    assert re.fullmatch(parameters["RestoredAs"]["AllowedPattern"], "r1-")
    assert not re.fullmatch(parameters["RestoredAs"]["AllowedPattern"], "b-")
    for taken in ("prod-r1", "prod-r9", "prod-rx", "a-b-r2"):
        assert not re.fullmatch(stage, taken)
    for free in ("prod", "r1", "prod-r", "prod-r1x", "prod-2", "for1"):
        assert re.fullmatch(stage, free)


def test_a_restore_stops_every_function_that_has_a_store() -> None:
    """F598a: Before a restore, docs/deploy.md stops each function that has a store."""
    page = (ROOT / "docs" / "deploy.md").read_text(encoding="utf-8")
    (stopped,) = (
        found
        for found in re.findall(r"for FUNCTION in ([^;]*); do\n([^\n]*)", page)
        if "put-function-concurrency" in found[1]
    )
    named = {str(each["FunctionName"]).rpartition(f"{STAGE}-")[2] for each in LAMBDAS.values()}
    assert stopped[0].replace("\\", " ").split() == sorted(named - {"console"})


def test_sam_local_has_every_function() -> None:
    """F599a: SAM local gives each function its queue, and an event to invoke it with."""
    given = json.loads((ROOT / "infra" / "sam" / "environment.json").read_text())
    page = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    invoked = dict(re.findall(r"local invoke (\w+) --event (\S+)", page))
    for name, function in LAMBDAS.items():
        queue = re.sub(r"sqs:|[${}]", "", str(variables(name).get("RESCIND_QUEUE", "")))
        if queue:
            filled = (given["Parameters"] | given.get(name, {}))["RESCIND_QUEUE"]
            queue_name = str(RESOURCES[queue]["Properties"]["QueueName"])
            assert filled.rpartition("/")[2] == queue_name.replace(f"-{STAGE}-", "-local-")
        if not events(name, "HttpApi") and function.get("Events"):
            assert (ROOT / invoked[name]).is_file()


def test_a_worker_may_call_itself_by_its_queue() -> None:
    """F598b: Lambda lets a function that fills the queue it is called by do so without an end.

    Otherwise it stops the chain at the 16th call, and webhooks wait for the next tick.
    """
    for name, function in LAMBDAS.items():
        filled = str(variables(name).get("RESCIND_QUEUE"))
        called = [each["Queue"].removesuffix(".Arn") for each in events(name, "SQS")]
        loops = any(filled == f"sqs:${{{queue}}}" for queue in called)
        assert (function.get("RecursiveLoop") == "Allow") is loops, name


# --- data ---


def test_a_deployment_touches_no_data() -> None:
    """F102a: A deployment of the functions touches no table, bucket or key.

    Only what a first deployment made before it failed goes again, or it would be in the way of the
    second: CloudFormation has `RetainExceptOnCreate` for that.
    """
    kinds = [resource["Type"] for resource in (RESOURCES | template(ALARMS)["Resources"]).values()]
    assert not [kind for kind in kinds if kind.startswith(DATA)]
    for resource in stack().values():
        assert resource["Type"].startswith(DATA)
        kept = (resource["DeletionPolicy"], resource["UpdateReplacePolicy"])
        assert kept == ("RetainExceptOnCreate", "Retain")


# --- an organization's rules ---

EVERY: Final = (FUNCTIONS, STATEFUL, ALARMS, SECOND)


def _of_every_template(kind: str) -> list[dict[str, Any]]:
    """The resources of a kind in all templates, as they are written."""
    found = [each for name in EVERY for each in written(name)["Resources"].values()]
    return [each["Properties"] for each in found if each["Type"] == kind]


def test_every_role_has_the_path_and_the_boundary_of_the_organization() -> None:
    """F648a: Each role takes `RolePath` and `PermissionsBoundary`, and none has one by default."""
    roles = _of_every_template("AWS::IAM::Role")
    assert len(roles) == len(LAMBDAS) + 1
    for role in roles:
        assert role["Path"] == {"Ref": "RolePath"}
        bound = ["HasBoundary", {"Ref": "PermissionsBoundary"}, {"Ref": "AWS::NoValue"}]
        assert role["PermissionsBoundary"] == {"Fn::If": bound}
    for name in (FUNCTIONS, SECOND):
        parameters = written(name)["Parameters"]
        assert parameters["RolePath"]["Default"] == "/"
        assert parameters["PermissionsBoundary"]["Default"] == ""


def test_every_log_group_and_the_topic_take_the_organization_s_key() -> None:
    """F648b: Each log group, and the topic of the alarms, is encrypted with `LogsKey` if given."""
    chosen = {"Fn::If": ["HasLogsKey", {"Ref": "LogsKey"}, {"Ref": "AWS::NoValue"}]}
    for group in _of_every_template("AWS::Logs::LogGroup"):
        assert group["KmsKeyId"] == chosen
    (topic,) = _of_every_template("AWS::SNS::Topic")
    assert topic["KmsMasterKeyId"] == chosen
    alarms = written(FUNCTIONS)["Resources"]["Alarms"]["Properties"]["Parameters"]
    assert alarms["LogsKey"] == {"Ref": "LogsKey"}


# --- a second region ---


def test_what_is_deleted_in_one_region_stays_in_the_other() -> None:
    """F649a: Blobs are copied, and their deletions are not."""
    written_as = written(STATEFUL)["Resources"]["Bucket"]["Properties"]["ReplicationConfiguration"]
    condition, given, _ = written_as["Fn::If"]
    (rule,) = given["Rules"]
    assert condition == "IsCopied"
    assert rule["DeleteMarkerReplication"] == {"Status": "Disabled"}
    name = given["Role"]["Fn::Sub"].rpartition("rescind-")[2]
    (role,) = of_kind("AWS::IAM::Role", SECOND).values()
    assert name == "${Stage}-replication-${AWS::Region}"
    assert role["RoleName"] == f"rescind-{STAGE}-replication-{REGION}"
