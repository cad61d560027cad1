"""The same hello in Powertools for AWS Lambda, in whose environment this file is run."""

from aws_lambda_powertools.event_handler import APIGatewayHttpResolver

from tests.bench.worker import HELLO_PATH, call_of, hello_event, serve


def hello() -> dict[str, str]:
    """Say hello."""
    return {"message": "hello"}


app = APIGatewayHttpResolver()
app.get(HELLO_PATH)(hello)

if __name__ == "__main__":
    serve({"hello": call_of(app.resolve, hello_event())})
