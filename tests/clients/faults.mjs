// A client in Node behind a service that fails: `node faults.mjs`, run by tests/clients/test_typescript.py.

import assert from "node:assert/strict";
import { createServer } from "node:http";
import { inspect } from "node:util";

import { AuthorizerClient, MemoryStateStore } from "@rescind/authorizer";
import { isSigned, NoEd25519 } from "./node_modules/@rescind/authorizer/dist/console.js";

const seen = [];
const server = createServer((request, response) => {
  seen.push({ port: request.socket.remotePort, headers: request.headers });
  response.writeHead(503, { "Retry-After": "99999999999" });
  response.end("away\r\nFORGED\u001b[2J\u0085\u2028");
});
await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
const usual = {
  url: `http://127.0.0.1:${server.address().port}`, tenant: "svc_tnt_a", trustPin: "0".repeat(64), report: false,
  policy: { maxStaleness: 10 },
};
const made = (options) => new AuthorizerClient({ apiKey: "key", state: new MemoryStateStore(), ...usual, ...options });

// The clocks of all clients, advanced by milliseconds.
const clock = performance.now.bind(performance), wall = Date.now, advanced = { clock: 0, wall: 0 };
performance.now = () => clock() + advanced.clock;
Date.now = () => wall() + advanced.wall;
// Polls, and passes the pause by one of the clocks.
const polled = async (client, by = "clock") => {
  const pause = await client.poll();
  // `Date.now` has whole milliseconds, so the pause may last a millisecond longer by the other clock.
  advanced[by] += pause * 1000 + 1;
  return pause;
};

// A key is checked, and no error quotes it.
for (const apiKey of ["", " \r\n", "SECRET\nKEY", "SECRET KEY", "SECRET\u00a0KEY", "SECRET\u00fc", "SECRET\u0000"]) {
  assert.throws(() => made({ apiKey }), (error) => error instanceof TypeError && !error.message.includes("SECRET"));
}
await made({ apiKey: "\ufeff \tSECRET!~\u00a0\r\n", onEvent: () => {} }).poll();
assert.equal(seen.pop().headers.authorization, "Bearer SECRET!~");

// Without Ed25519 in WebCrypto, the check of a signature fails. What is no key signs nothing.
const { importKey } = crypto.subtle;
for (const [name, isMissing] of [["NotSupportedError", true], ["DataError", false]]) {
  crypto.subtle.importKey = async () => { throw new DOMException("", name); };
  const checked = isSigned(new Uint8Array(1), new Uint8Array(64), new Uint8Array(32));
  if (isMissing) await assert.rejects(checked, NoEd25519);
  else assert.equal(await checked, false);
}
crypto.subtle.importKey = importKey;

// A printed client does not contain the key.
const printed = made({ apiKey: "SECRET" });
for (const each of [inspect(printed, { depth: 9, showHidden: true }), JSON.stringify(printed)]) {
  assert.match(each, /127\.0\.0\.1/);
  assert.doesNotMatch(each, /SECRET/);
}

// A saved state that fails once is read again. Errors of `onEvent` end nothing.
let left = 1;
class Failing extends MemoryStateStore {
  async read(name) {
    if (left-- > 0) throw new Error("the disk is away");
    return super.read(name);
  }
}
for (const onEvent of [() => { throw new Error("thrown"); }, async () => { throw new Error("rejected"); }]) {
  left = 1;
  const client = made({ state: new Failing(), onEvent });
  await assert.rejects(client.poll(), /the disk is away/);
  await client.poll();
  assert.equal(client.status.failures, 1);
}

// During the pause after an exchange, neither `poll` nor `run` makes a request. The first of both clocks ends it.
seen.length = 0;
const pausing = made({ onEvent: () => {} });
for (const by of ["clock", "wall"]) {
  const pause = await pausing.poll(), requests = seen.length;
  for (const part of [0, 0.9]) {
    advanced[by] += part * pause * 1000;
    const left = await pausing.poll();
    assert.ok(left > 0 && left <= pause * (1.01 - part), `${left} of ${pause}`);
  }
  assert.equal(seen.length, requests);
  advanced[by] += pause * 1000;
}
await pausing.poll();
const following = pausing.run();
// It would await the request of `run`.
await pausing.poll();
assert.equal(seen.length, 3);
pausing.close();
await following;

// No pause exceeds half of maxStaleness. After the second failure in a row the connection is another one.
seen.length = 0;
const events = [], client = made({ onEvent: (each) => events.push(each) });
for (let n = 0; n < 4; n += 1) {
  const pause = await polled(client);
  assert.ok(pause > 2 && pause <= 5, `${pause}`);
}
assert.deepEqual(seen.map(({ headers }) => headers.connection), ["keep-alive", "close", "close", "close"]);
assert.equal(new Set(seen.slice(1).map(({ port }) => port)).size, 3);

// What a service answers is one line.
assert.equal(events[0].message, "the service answered 503: away\\u000d\\u000aFORGED\\u001b[2J\\u0085\\u2028");

// A peer may repeat the request in its response.
const reflected = [], reflecting = createServer((request, response) => {
  const sent = request.headers.authorization;
  if (reflected.length === 0) return response.writeHead(400).end("x".repeat(160) + sent);
  if (reflected.length === 1) return response.writeHead(400).end(`${sent} ${sent}`);
  response.writeHead(200, reflected.length === 2 ? { Age: sent } : { "Content-Encoding": sent }).end(sent);
});
await new Promise((resolve) => reflecting.listen(0, "127.0.0.1", resolve));
const url = `http://127.0.0.1:${reflecting.address().port}`;
const asking = made({ url, apiKey: "SECRET", onEvent: (each) => reflected.push(JSON.stringify(each)) });
for (let n = 0; n < 4; n += 1) await polled(asking);
reflecting.close();
reflecting.closeAllConnections();
assert.equal(reflected.length, 4);
assert.match(reflected[1], /the service answered 400: Bearer … Bearer …/);
assert.doesNotMatch(reflected.join(), /SECRET/);

// By default, failures are written to the console.
const written = [];
console.warn = (...words) => written.push(words.join(" "));
await made({}).poll();
assert.equal(written.length, 1);
assert.match(written[0], /^rescind: \{"type":"failed","message":"the service answered 503: away/);
server.close();
server.closeAllConnections();
await made({}).poll();
assert.match(written[1], /the service cannot be reached: ECONNREFUSED/);
