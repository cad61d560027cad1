"""The least that FastAPI and Mangum can do: one route that says hello."""

from fastapi import FastAPI
from mangum import Mangum

from tests.bench.worker import HELLO_PATH, call_of, hello_event, serve

app = FastAPI(openapi_url=None)


@app.get(HELLO_PATH)
async def hello() -> dict[str, str]:
    """Say hello."""
    return {"message": "hello"}


handler = Mangum(app, lifespan="off")

if __name__ == "__main__":
    serve({"hello": call_of(handler, hello_event())})
