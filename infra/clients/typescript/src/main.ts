#!/usr/bin/env node
// `rescind-authorizer conformance` answers the requests of the conformance suite, which are JSON
// lines.

import { createInterface } from "node:readline";

import { Session } from "./conformance.js";
import { FileStateStore } from "./node.js";

if (process.argv[2] !== "conformance") {
  console.error("usage: rescind-authorizer conformance");
  process.exit(2);
}
const session = new Session((folder) => new FileStateStore(folder));
for await (const line of createInterface({ input: process.stdin })) {
  console.log(JSON.stringify(await session.answer(JSON.parse(line) as object)));
}
// A client that follows a service would keep the process running.
process.exit(0);
