// The client in TypeScript with the identifiers of a file, a line each: what it takes for them, and for a check.
// It prints the bytes that memory grew by, and the nanoseconds of the processor for a check that is
// clear, and for one that is revoked: node --expose-gc check.mjs CLIENT REVOKED OTHERS REVOKED-AGAIN

import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

const [folder, ...files] = process.argv.slice(2);
const part = (name) => import(pathToFileURL(`${folder}/dist/${name}.js`));
const [{ AuthorizerClient, MemoryFloor }, { CompactIds, RevokedIds }] = [await part("index"), await part("state")];

// Each text is one of its own, as those of requests are.
const read = (file) => {
  const bytes = readFileSync(file), texts = [];
  for (let at = 0, end; (end = bytes.indexOf(10, at)) >= 0; at = end + 1) texts.push(bytes.latin1Slice(at, end));
  return texts;
};
const memory = async () => {
  // What only the last turn of the event loop held goes with the second one.
  globalThis.gc();
  await new Promise(setImmediate);
  globalThis.gc();
  const { heapUsed, external } = process.memoryUsage();
  return heapUsed + external;
};

const [revoked, ...asked] = files;
const before = await memory();
const whole = ((texts) => new CompactIds(texts, texts.length))(read(revoked));
const grown = await memory() - before;

const client = new AuthorizerClient({
  url: "https://127.0.0.1", apiKey: "bench", tenant: "svc_tnt_bench", trustRoot: "0".repeat(64),
  floor: new MemoryFloor(), report: false,
});
const view = { state: null, revoked: new RevokedIds(whole), end: Infinity, wallEnd: Infinity, isTrusted: true };
client.follower.view = view;

const nanoseconds = (texts, verdict) => {
  const began = process.cpuUsage();
  let right = 0;
  for (const text of texts) right += client.check(text) === verdict;
  const { user, system } = process.cpuUsage(began);
  if (right !== texts.length) throw new Error(`not every check is ${verdict}`);
  return ((user + system) * 1000) / texts.length;
};
for (const file of asked) nanoseconds(read(file).slice(0, 20000), file === asked[0] ? "clear" : "revoked");
console.log(grown, ...asked.map((file, n) => nanoseconds(read(file), n ? "revoked" : "clear")));
