// A second client of the feed, written from docs/feed.md alone and without any package. It answers
// the requests of the conformance suite: `python -m tests.conformance -- node client.mjs`.

import { createHash, createPublicKey, verify } from "node:crypto";
import { createInterface } from "node:readline";

const SECOND = 1000, DAY = 86400 * SECOND;
const ANSWER_MAX = 4 * 2 ** 20, STEP_MAX = 2 ** 32, ID_MAX = 72, NUMBER_MAX = 2 ** 53;

class Refused extends Error {}
class NeedsBase extends Error {}

const refuse = (reason) => { throw new Refused(reason); };
const need = (holds, reason) => holds || refuse(reason);
const sha256 = (...parts) => parts.reduce((hash, part) => hash.update(part), createHash("sha256")).digest();

// Deterministic CBOR: text keys in order, the shortest headers; neither tags nor floats.
function decode(data) {
  let at = 0;
  const bad = () => refuse("malformed");
  const take = (size) => (at + size <= data.length ? data.subarray(at, (at += size)) : bad());
  const argument = (short) => {
    if (short < 24) return short;
    const size = { 24: 1, 25: 2, 26: 4, 27: 8 }[short] ?? bad();
    const value = BigInt(`0x${take(size).toString("hex")}`);
    if (value < (size === 1 ? 24n : 256n ** BigInt(size / 2))) bad();
    // A larger number is not exact, so it is no number that the feed uses.
    return value > BigInt(NUMBER_MAX) ? Infinity : Number(value);
  };
  const text = (size) => {
    try {
      return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(take(size));
    } catch { return bad(); }
  };
  const map = (size) => {
    const members = new Map();
    for (let last; size > 0; size -= 1) {
      const start = at, key = item(), bytes = data.subarray(start, at);
      if (typeof key !== "string" || (last && Buffer.compare(last, bytes) >= 0)) bad();
      members.set(key, item());
      last = bytes;
    }
    return members;
  };
  const list = (size) => {
    const items = [];
    while (items.length < size) items.push(item());
    return items;
  };
  const item = () => {
    const byte = take(1)[0], kind = byte >> 5, short = byte & 31;
    if (kind === 7) return short in { 20: 0, 21: 0, 22: 0 } ? [false, true, null][short - 20] : bad();
    const size = argument(short);
    return [() => size, () => -1 - size, () => take(size), () => text(size), () => list(size), () => map(size), bad][kind]();
  };
  const value = item();
  return at === data.length && value instanceof Map ? value : bad();
}

const isNumber = (value) => Number.isInteger(value) && value >= 0 && value <= NUMBER_MAX;
const isHash = (value) => value instanceof Uint8Array && value.length === 32;
const bytesOf = (text) => Buffer.from(text, "utf8");

function member(members, name, holds) {
  const value = members.get(name);
  return holds(value) ? value : refuse("malformed");
}

function moment(members, name) {
  const text = member(members, name, (value) => /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/.test(value));
  const at = new Date(text);
  need(!Number.isNaN(+at) && at.toISOString() === text.replace("Z", ".000Z"), "malformed");
  return +at;
}

function readHead(payload) {
  const members = decode(payload), base = member(members, "Base", (value) => value instanceof Map);
  const head = {
    tenant: member(members, "Tenant", (value) => typeof value === "string"),
    sequence: member(members, "Sequence", isNumber),
    chain: member(members, "Chain", isHash),
    issuedAt: moment(members, "IssuedAt"),
    expiresAt: moment(members, "ExpiresAt"),
    base: {
      version: member(base, "Version", isNumber),
      sequence: member(base, "Sequence", isNumber),
      chain: member(base, "Chain", isHash),
      sha256: member(base, "SHA256", isHash),
      count: member(base, "Count", isNumber),
    },
  };
  need(head.base.sequence <= head.sequence, "malformed");
  return head;
}

function readIds(members, name) {
  if (!members.has(name)) return [];
  const ids = member(members, name, (value) => Array.isArray(value) && value.length > 0);
  ids.forEach((id, number) => {
    need(typeof id === "string" && bytesOf(id).length <= ID_MAX, "malformed");
    need(!number || Buffer.compare(bytesOf(ids[number - 1]), bytesOf(id)) < 0, "malformed");
  });
  return ids;
}

function readEntry(data, sequence) {
  const members = decode(data);
  const revoked = readIds(members, "Revoked"), removed = readIds(members, "Removed");
  need(!revoked.some((id) => removed.includes(id)), "malformed");
  need(member(members, "Sequence", isNumber) === sequence, "gap");
  return { sequence, revoked, removed, isBreak: !revoked.length && !removed.length };
}

function base64(text) {
  const data = typeof text === "string" ? Buffer.from(text, "base64") : refuse("malformed");
  return data.toString("base64") === text ? data : refuse("malformed");
}

function readAnswer(text) {
  need(bytesOf(text).length <= ANSWER_MAX, "too_large");
  let answer;
  try { answer = JSON.parse(text); } catch { refuse("malformed"); }
  const { head, entries, poll_seconds = 1, wait_max = 0 } = answer ?? {};
  need(Array.isArray(entries) && typeof poll_seconds === "number" && typeof wait_max === "number", "malformed");
  return { payload: base64(head?.Payload), signature: base64(head?.Signature), entries: entries.map(base64) };
}

const P = 2n ** 255n - 19n;
const Y8 = 2707385501144840649318225287225658788936804267575313519463743609750303402022n;
const SMALL = new Set([0n, 1n, P - 1n, Y8, P - Y8]);

// A key of 32 bytes, as hex, unless anybody could sign for it.
function keyOf(data) {
  const y = data.length === 32 ? BigInt(`0x${Buffer.from(data).reverse().toString("hex")}`) & (2n ** 255n - 1n) : 0n;
  return SMALL.has(y % P) ? refuse("malformed") : Buffer.from(data).toString("hex");
}

function isSigned(prefix, data, signature, key) {
  const x = Buffer.from(key, "hex").toString("base64url");
  const jwk = createPublicKey({ key: { kty: "OKP", crv: "Ed25519", x }, format: "jwk" });
  return verify(null, Buffer.concat([bytesOf(prefix), data]), jwk, signature);
}

function readStatement(form) {
  const payload = base64(form?.Payload), members = decode(payload);
  const text = (value) => typeof value === "string", bytes = (value) => value instanceof Uint8Array;
  const statement = {
    form,
    tenant: member(members, "Tenant", text),
    number: member(members, "Number", (value) => isNumber(value) && value > 0),
    key: keyOf(member(members, "PublicKey", bytes)),
    previous: keyOf(member(members, "Previous", bytes)),
  };
  member(members, "KeyId", text);
  moment(members, "IssuedAt");
  need(members.size === 6, "malformed");
  need(isSigned("rescind-srl-signer-v1\n", payload, base64(form?.Signature), statement.previous), "malformed");
  return statement;
}

// The good statements about signers of the tenant, by number.
function statements() {
  const opened = [...trust.led, ...trust.listed.values()].flatMap((form) => {
    try { return form ? [readStatement(form)] : []; } catch { return []; }
  });
  return opened.filter((each) => each.tenant === trust.tenant).sort((one, two) => one.number - two.number);
}

// The keys that may sign the next head, each with the statements that lead to it.
function accepted() {
  const led = trust.led.map(readStatement), older = led.map((each) => each.previous);
  const isOut = (key) => trust.revoked.has(key) || older.includes(key);
  const found = new Map();
  const add = (key, number, chain) => isOut(key) || found.has(key) || found.set(key, { number, chain });
  // The present signer is as good as its pin, unless a signer between them was stolen since.
  const isHeld = led.every((each) => !trust.revoked.has(each.previous)) && (led.length || trust.pinned.includes(trust.current));
  if (isHeld) add(trust.current, Math.max(0, ...led.map((each) => each.number)), trust.led);
  trust.pinned.forEach((key) => add(key, 0, []));
  for (const { key, previous, number, form } of statements()) {
    const before = found.get(previous);
    if (before && before.number < number) add(key, number, [...before.chain, form]);
  }
  return found;
}

// Why no statements lead to a key: the first link that does not hold.
function brokenLink(key, passed) {
  const older = trust.led.map((form) => readStatement(form).previous);
  for (;;) {
    need(!trust.revoked.has(key), "signer_revoked");
    need(!older.includes(key), "signer_older");
    need(trust.listed.get(key), "statement_missing");
    let statement;
    try { statement = readStatement(trust.listed.get(key)); } catch { refuse("statement_forged"); }
    need(statement.key === key, "statement_forged");
    need(statement.tenant === trust.tenant, "statement_tenant");
    need(!passed.has(statement.previous), "statement_order");
    passed.add(key);
    key = statement.previous;
  }
}

function verified({ payload, signature }) {
  const good = accepted();
  const isGood = (key) => isSigned("rescind-feed-head-v1\n", payload, signature, key);
  const signer = [...good.keys()].find(isGood);
  if (signer) return { ...readHead(payload), signer, led: good.get(signer).chain };
  const older = trust.led.map((form) => readStatement(form).previous);
  const other = [...trust.listed.keys(), ...trust.pinned, ...trust.revoked, ...older].find(isGood);
  return other ? brokenLink(other, new Set(good.keys())) : refuse("signature");
}

// The entries from a position to the head; null if the answer does not reach back so far.
function entriesAfter(start, answer, head, passed) {
  const count = head.sequence - start.sequence;
  if (count > answer.entries.length) return null;
  const used = answer.entries.slice(answer.entries.length - count);
  const check = (sequence, chain) =>
    need(passed.every((each) => each.sequence !== sequence || each.chain.equals(chain)), "chain");
  let chain = start.chain;
  check(start.sequence, chain);
  used.forEach((data, number) => {
    chain = sha256(chain, sha256(data));
    check(start.sequence + 1 + number, chain);
  });
  need(Buffer.compare(chain, head.chain) === 0, "chain");
  return used.map((data, number) => readEntry(data, start.sequence + 1 + number));
}

function broken(entries, base) {
  const breaks = entries.filter((entry) => entry.isBreak);
  need(breaks.every((entry) => entry.sequence <= base.sequence), "break");
  return breaks.length > 0;
}

function applied(ids, entries) {
  const set = new Set(ids);
  for (const { revoked, removed } of entries) {
    removed.forEach((id) => set.delete(id));
    revoked.forEach((id) => set.add(id));
  }
  return set;
}

function readBase(data, base) {
  need(data.length <= (base.count + 2) * 80, "too_large");
  need(sha256(data).equals(base.sha256), "hash");
  const members = decode(data);
  const ids = member(members, "RevokedIDs", (value) => Array.isArray(value) && value.length === base.count);
  need(members.get("Version") === base.version, "version");
  return ids;
}

function advance(state, answer, base, now, { tenant, floor }) {
  const head = verified(answer);
  need(head.tenant === tenant, "tenant");
  const lifetime = head.expiresAt - head.issuedAt;
  need(lifetime > 0 && lifetime <= 7 * DAY, "lifetime");
  need(head.issuedAt - now <= 30 * SECOND, "future");
  need(now < head.expiresAt, "expired");
  const passed = [floor, state?.head].filter(Boolean);
  need(passed.every((each) => each.sequence <= head.sequence), "rollback");
  need(passed.every((each) => each.sequence !== head.sequence || each.chain.equals(head.chain)), "equivocation");
  if (state) {
    need(state.head.sequence !== head.sequence || head.issuedAt >= state.head.issuedAt, "replay");
    const entries = entriesAfter(state.head, answer, head, passed);
    if (entries && !broken(entries, head.base)) return { head, ids: applied(state.ids, entries) };
  }
  const entries = entriesAfter(head.base, answer, head, passed);
  need(entries, "gap");
  broken(entries, head.base);
  need(passed.length === 0 || head.sequence - Math.max(...passed.map((each) => each.sequence)) <= STEP_MAX, "fast_forward");
  if (base === null) throw new NeedsBase(head.base.version);
  return { head, ids: applied(readBase(base, head.base), entries) };
}

let state = null, end = null, trust = {};
const commands = {
  init({ tenant, public_keys, floor }) {
    state = end = null;
    const place = floor && { sequence: floor.sequence, chain: base64(floor.chain) };
    const pinned = public_keys.map((key) => keyOf(base64(key)));
    // `led` are the statements that lead to the signer of the newest head, which is `current`.
    trust = { tenant, pinned, floor: place, current: null, led: [], listed: new Map(), kept: new Set(), revoked: new Set() };
    return { ready: true };
  },
  keys({ response }) {
    const { keys } = JSON.parse(response);
    trust.listed = new Map(keys.map((each) => [keyOf(base64(each.public_key)), each.statement]));
    const revoked = keys.filter((each) => each.status === "revoked").map((each) => keyOf(base64(each.public_key)));
    // Of a key that has signed nothing, the status counts only as long as it is reported.
    const signed = new Set([trust.current, ...statements().map((each) => each.previous)]);
    trust.kept = new Set([...trust.kept, ...revoked.filter((key) => signed.has(key))]);
    trust.revoked = new Set([...trust.kept, ...revoked]);
    return { ready: true };
  },
  restart() {
    if (state) trust.floor = { sequence: state.head.sequence, chain: state.head.chain };
    Object.assign(trust, { listed: new Map(), revoked: trust.kept });
    state = end = null;
    return { ready: true };
  },
  poll({ now, answer, base }) {
    try {
      state = advance(state, readAnswer(answer), base === null ? null : base64(base), +new Date(now), trust);
      trust = { ...trust, current: state.head.signer, led: state.head.led };
      return { sequence: state.head.sequence };
    } catch (error) {
      if (error instanceof NeedsBase) return { needs_base: +error.message };
      if (error instanceof Refused) return { refused: error.message };
      throw error;
    }
  },
  confirm({ now, age, max_staleness }) {
    end = Math.max(end ?? -Infinity, +new Date(now) + (max_staleness - age) * SECOND);
    return { ready: true };
  },
  check({ now, ids }) {
    if (state && ids.some((id) => state.ids.has(id))) return { verdict: "revoked" };
    const last = Math.min(end ?? Infinity, state?.head.expiresAt);
    const isSure = state && !trust.revoked.has(state.head.signer) && +new Date(now) < last;
    return { verdict: isSure ? "clear" : "stale" };
  },
};

for await (const line of createInterface({ input: process.stdin })) {
  const [[name, given]] = Object.entries(JSON.parse(line));
  console.log(JSON.stringify(commands[name](given)));
}
