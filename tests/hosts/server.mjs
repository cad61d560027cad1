// A server that returns its process and the verdict on the warrant of the query: PORT [cluster].

import cluster from "node:cluster";
import { createServer } from "node:http";
import { join } from "node:path";
import process from "node:process";

import { AuthorizerClient } from "@rescind/authorizer";
import { FileStateStore } from "@rescind/authorizer/node";

const { HOST_URL: url, HOST_KEY: apiKey, HOST_TENANT: tenant, HOST_PIN: trustPin, HOST_STATE_DIR } = process.env;
const [port, mode] = process.argv.slice(2);

if (mode && cluster.isPrimary) {
  cluster.fork();
  cluster.fork();
} else {
  // Each process has a state folder and a name of its own.
  const name = `gate-${cluster.worker?.id ?? 1}`, state = new FileStateStore(join(HOST_STATE_DIR, name));
  const client = new AuthorizerClient({ url, apiKey, tenant, trustPin, name, state, policy: { maxStaleness: 6 } });
  client.run();
  createServer((request, response) => {
    response.end(`${process.pid} ${client.check(request.url.split("?")[1])}`);
  }).listen(Number(port), "127.0.0.1");
}
