// A client in a process of its own, which does what lines of JSON say: tests/clients/test_typescript.py.

import { createInterface } from "node:readline";
import { setTimeout } from "node:timers/promises";

import { AuthorizerClient } from "@rescind/authorizer";
import { FileStateStore } from "@rescind/authorizer/node";

const { folder, ...options } = JSON.parse(process.argv[2]), events = [];
const client = new AuthorizerClient({ ...options, state: new FileStateStore(folder), onEvent: (each) => events.push(each) });
const said = (error) => `${error.constructor.name}: ${error.message}`;
const commands = {
  run: () => void client.run().catch((error) => events.push({ type: "ended", message: said(error) })),
  // After the pause, the next poll makes a request.
  poll: async () => setTimeout(1 + 1000 * (await client.poll())),
  report: () => client.report(),
  check: (ids) => client.check(...ids),
  status: () => client.status,
  close: () => client.close(),
  events: () => events.splice(0),
  memory: async () => {
    // What only the last turn of the event loop held goes with the second one.
    globalThis.gc();
    await new Promise(setImmediate);
    globalThis.gc();
    return process.memoryUsage();
  },
  timed: (ids) => Math.min(...Array.from({ length: 9 }, () => secondsOf(ids))) / ids.length,
};
function secondsOf(ids) {
  const start = process.cpuUsage();
  for (const id of ids) client.check(id);
  const { user, system } = process.cpuUsage(start);
  return (user + system) / 1e6;
}
for await (const line of createInterface({ input: process.stdin })) {
  const [[name, given]] = Object.entries(JSON.parse(line));
  const answer = await Promise.resolve(given).then(commands[name]).catch((error) => ({ error: said(error) }));
  console.log(JSON.stringify(answer ?? null));
}
client.close();
