// A second client of the feed, written from docs/feed.md and docs/spec/trust.md alone and without any
// package. It answers the requests of the conformance suite: `python -m tests.conformance -- node client.mjs`.

import { createHash, createPublicKey, verify } from "node:crypto";
import { createInterface } from "node:readline";

const SECOND = 1000, DAY = 86400 * SECOND;
const ANSWER_MAX = 4 * 2 ** 20, STEP_MAX = 2 ** 32, ID_MAX = 72, NUMBER_MAX = 2 ** 53, DEPTH_MAX = 16;
const TRUST_MAX = 6 * 2 ** 20, DOCUMENTS_MAX = 64, DOCUMENT_MAX = 65536, SIGNATURES_MAX = 16;

class Refused extends Error {}
class NeedsBase extends Error {}

const refuse = (reason) => { throw new Refused(reason); };
const need = (holds, reason) => holds || refuse(reason);
const sha256 = (...parts) => parts.reduce((hash, part) => hash.update(part), createHash("sha256")).digest();

// Deterministic CBOR: text keys in order, the shortest headers; neither tags nor floats. If it is not
// `strict`, order and headers may differ, but no member comes twice.
function decode(data, strict = true) {
  let at = 0;
  const bad = () => refuse("malformed");
  const take = (size) => (at + size <= data.length ? data.subarray(at, (at += size)) : bad());
  const argument = (short) => {
    if (short < 24) return short;
    const size = { 24: 1, 25: 2, 26: 4, 27: 8 }[short] ?? bad();
    const value = BigInt(`0x${take(size).toString("hex")}`);
    if (strict && value < (size === 1 ? 24n : 256n ** BigInt(size / 2))) bad();
    // A larger number is not exact, so it is no number that the formats use.
    return value > BigInt(NUMBER_MAX) ? Infinity : Number(value);
  };
  const text = (size) => {
    try {
      return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(take(size));
    } catch { return bad(); }
  };
  const map = (size, depth) => {
    const members = new Map();
    for (let last; size > 0; size -= 1) {
      const start = at, key = item(depth), bytes = data.subarray(start, at);
      if (!isText(key) || members.has(key) || (strict && last && Buffer.compare(last, bytes) >= 0)) bad();
      members.set(key, item(depth));
      last = bytes;
    }
    return members;
  };
  const list = (size, depth) => {
    const items = [];
    while (items.length < size) items.push(item(depth));
    return items;
  };
  const item = (depth) => {
    const byte = depth > DEPTH_MAX ? bad() : take(1)[0], kind = byte >> 5, short = byte & 31;
    if (kind === 7) return short in { 20: 0, 21: 0, 22: 0 } ? [false, true, null][short - 20] : bad();
    const size = argument(short), read = [() => size, () => -1 - size, take, text, list, map, bad][kind];
    return read(size, depth + 1);
  };
  const value = item(0);
  return at === data.length && isMap(value) ? value : bad();
}

function encode(value) {
  const header = (kind, size) => {
    if (size < 24) return Buffer.from([(kind << 5) | size]);
    const width = [1, 2, 4, 8].find((bytes) => size < 256 ** bytes), hex = size.toString(16).padStart(2 * width, "0");
    return Buffer.concat([Buffer.from([(kind << 5) | (24 + Math.log2(width))]), Buffer.from(hex, "hex")]);
  };
  if (value === null) return Buffer.from([0xf6]);
  if (typeof value === "number") return header(0, value);
  if (isText(value)) return Buffer.concat([header(3, bytesOf(value).length), bytesOf(value)]);
  if (isBytes(value)) return Buffer.concat([header(2, value.length), value]);
  if (Array.isArray(value)) return Buffer.concat([header(4, value.length), ...value.map(encode)]);
  const members = [...value].map((each) => each.map(encode)).sort(([one], [two]) => Buffer.compare(one, two));
  return Buffer.concat([header(5, members.length), ...members.flat()]);
}

const isNumber = (value) => Number.isInteger(value) && value >= 0 && value <= NUMBER_MAX;
const isBytes = (value) => value instanceof Uint8Array;
const isHash = (value) => isBytes(value) && value.length === 32;
const isText = (value) => typeof value === "string";
const isMap = (value) => value instanceof Map;
const bytesOf = (text) => Buffer.from(text, "utf8");
const hexOf = (data) => Buffer.from(data).toString("hex");

function member(members, name, holds) {
  const value = members.get(name);
  return holds(value) ? value : refuse("malformed");
}

// What `read` finds in a member that may be absent; then null.
const optional = (members, name, read) => (members.has(name) ? read(members, name) : null);
const hashOf = (members, name) => member(members, name, isHash);

// A list of which `holds` is true of each element; a sorted one has each once.
const listOf = (members, name, holds) => member(members, name, (value) => Array.isArray(value) && value.every(holds));
const rising = (values) =>
  need(values.every((each, number) => !number || Buffer.compare(values[number - 1], each) < 0), "malformed");

function moment(members, name) {
  const text = member(members, name, (value) => /^(?!0000)\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/.test(value));
  const at = new Date(text);
  need(!Number.isNaN(+at) && at.toISOString() === text.replace("Z", ".000Z"), "malformed");
  return +at;
}

// Something that a head names: the hash of its bytes, and a number.
const referenceOf = (counted) => (members, name) => {
  const named = member(members, name, isMap);
  return { sha256: hashOf(named, "SHA256"), number: member(named, counted, isNumber) };
};

function readHead(payload) {
  const members = decode(payload), base = member(members, "Base", isMap);
  const head = {
    tenant: member(members, "Tenant", isText),
    sequence: member(members, "Sequence", isNumber),
    chain: hashOf(members, "Chain"),
    issuedAt: moment(members, "IssuedAt"),
    expiresAt: moment(members, "ExpiresAt"),
    base: {
      version: member(base, "Version", isNumber),
      sequence: member(base, "Sequence", isNumber),
      chain: hashOf(base, "Chain"),
      sha256: hashOf(base, "SHA256"),
      count: member(base, "Count", isNumber),
    },
    trust: optional(members, "Trust", referenceOf("Version")),
    keys: optional(members, "Keys", referenceOf("Size")),
  };
  need(head.base.sequence <= head.sequence, "malformed");
  return head;
}

function readIds(members, name) {
  if (!members.has(name)) return [];
  const ids = listOf(members, name, (id) => isText(id) && bytesOf(id).length <= ID_MAX);
  need(ids.length, "malformed");
  rising(ids.map(bytesOf));
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
  const data = isText(text) ? Buffer.from(text, "base64") : refuse("malformed");
  return data.toString("base64") === text ? data : refuse("malformed");
}

function json(text, most) {
  need(bytesOf(text).length <= most, "too_large");
  try { return JSON.parse(text) ?? {}; } catch { return refuse("malformed"); }
}

function readAnswer(text) {
  const { head, entries, poll_seconds = 1, wait_max = 0 } = json(text, ANSWER_MAX);
  need(Array.isArray(entries) && typeof poll_seconds === "number" && typeof wait_max === "number", "malformed");
  return { payload: base64(head?.Payload), signature: base64(head?.Signature), entries: entries.map(base64) };
}

const P = 2n ** 255n - 19n;
const Y8 = 2707385501144840649318225287225658788936804267575313519463743609750303402022n;
const SMALL = new Set([0n, 1n, P - 1n, Y8, P - Y8]);

// A key of 32 bytes, as hex, unless anybody could sign for it.
function keyOf(data) {
  const y = isHash(data) ? BigInt(`0x${hexOf(Buffer.from(data).reverse())}`) & (2n ** 255n - 1n) : 0n;
  return SMALL.has(y % P) ? refuse("malformed") : hexOf(data);
}

function isSigned(prefix, data, signature, key) {
  const x = Buffer.from(key, "hex").toString("base64url");
  const jwk = createPublicKey({ key: { kty: "OKP", crv: "Ed25519", x }, format: "jwk" });
  return verify(null, Buffer.concat([bytesOf(prefix), data]), jwk, signature);
}

function readRoots(members) {
  const given = listOf(members, "Keys", isBytes), keys = given.map(keyOf);
  const threshold = member(members, "Threshold", isNumber);
  rising(given);
  need(threshold >= 1 && threshold <= keys.length && keys.length <= 8 && members.size === 2, "malformed");
  return { keys, threshold, pin: hexOf(sha256("rescind-roots-v1\n", encode(members))) };
}

function readSigners(members) {
  const given = listOf(members, "Signers", isMap);
  const signers = given.map((each) => {
    const uses = listOf(each, "Uses", isText);
    rising(uses.map(bytesOf));
    need(uses.length, "malformed");
    return { key: keyOf(member(each, "Key", isBytes)), uses };
  });
  rising(given.map((each) => each.get("Key")));
  need(signers.length <= 256, "malformed");
  return signers;
}

function logOf(members, name) {
  const log = member(members, name, isMap);
  return { origin: member(log, "Origin", isText), size: member(log, "Size", isNumber), root: hashOf(log, "Root") };
}

function witnessesOf(members, name) {
  const given = member(members, name, isMap), keys = listOf(given, "Keys", isText);
  rising(keys.map(bytesOf));
  return { keys, quorum: member(given, "Quorum", (value) => isNumber(value) && value <= keys.length) };
}

function readDocument({ payload, signatures }) {
  need(payload.length <= DOCUMENT_MAX && signatures.size <= SIGNATURES_MAX, "too_large");
  const members = decode(payload), feed = member(members, "Feed", isMap);
  const document = {
    payload,
    hash: sha256(payload),
    signatures,
    tenant: member(members, "Tenant", isText),
    version: member(members, "Version", (value) => isNumber(value) && value >= 1),
    issuedAt: moment(members, "IssuedAt"),
    expiresAt: moment(members, "ExpiresAt"),
    roots: readRoots(member(members, "Roots", isMap)),
    signers: readSigners(members),
    feed: { sequence: member(feed, "Sequence", isNumber), chain: hashOf(feed, "Chain") },
    log: optional(members, "Log", logOf),
    witnesses: optional(members, "Witnesses", witnessesOf),
    signingKeys: optional(members, "SigningKeys", hashOf),
  };
  need(!document.signers.some(({ key }) => document.roots.keys.includes(key)), "malformed");
  return document;
}

function readDocuments(text) {
  const { documents } = json(text, TRUST_MAX);
  need(Array.isArray(documents), "malformed");
  const given = documents.map((each) => {
    need(Array.isArray(each?.Signatures), "malformed");
    const signatures = new Map(each.Signatures.map((one) => [hexOf(base64(one?.Key)), base64(one?.Signature)]));
    need(signatures.size === each.Signatures.length, "malformed");
    return { payload: base64(each.Payload), signatures };
  });
  need(given.length <= DOCUMENTS_MAX, "too_large");
  return given.map(readDocument);
}

// Those of these keys that signed a document.
const signersOf = ({ hash, signatures }, keys) =>
  keys.filter((key) => signatures.has(key) && isSigned("rescind-trust-v1\n", hash, signatures.get(key), key));

function signedBy({ keys, threshold }, document) {
  return signersOf(document, keys).length >= threshold ? document : refuse("root");
}

// The document that is held after the next one of an answer.
function after(held, next, pin) {
  if (!held) return next.roots.pin === pin ? signedBy(next.roots, next) : null;
  if (next.version < held.version || next.payload.equals(held.payload)) return held;
  signedBy(held.roots, next);
  need(next.version > held.version, "equivocation");
  return signedBy(next.roots, next);
}

// A client without a pin takes that of the first document that a list signer known before signed.
const pinOf = (documents, { pin, known }) =>
  pin ?? documents.find((each) => signersOf(each, known).length)?.roots.pin ?? refuse("root");

function follow(documents, now, { tenant, pin, held }) {
  need(documents.every((each) => each.tenant === tenant), "tenant");
  const found = documents.reduce((last, each) => after(last, each, pin), held);
  need(found, "root");
  need(documents.at(-1).version >= found.version, "rollback");
  if (found === held) return held;
  const lifetime = found.expiresAt - found.issuedAt;
  need(lifetime > 0 && lifetime <= 400 * DAY, "lifetime");
  need(found.issuedAt - now <= 30 * SECOND, "future");
  return found;
}

// The keys that may sign heads.
const named = (held) => (held ? held.signers.filter(({ uses }) => uses.includes("lists")).map(({ key }) => key) : []);

function verified({ payload, signature }, now, held) {
  const signer = named(held).find((key) => isSigned("rescind-feed-head-v1\n", payload, signature, key));
  need(signer, "signature");
  const head = readHead(payload), { trust: reference } = head;
  need(now < held.expiresAt, "trust_expired");
  need(!reference || reference.number <= held.version, "behind");
  need(reference?.number !== held.version || reference.sha256.equals(held.hash), "equivocation");
  return { ...head, signer };
}

function readSigningKey(members) {
  const certificate = optional(members, "Certificate", (_, name) => {
    const given = member(members, name, isMap), isSignature = (value) => isBytes(value) && value.length === 64;
    return { by: member(given, "By", isText), signature: member(given, "Signature", isSignature) };
  });
  ["ExpiresAt", "RotatedAt", "SuspendedAt", "RevokedAt"].forEach((name) => optional(members, name, moment));
  moment(members, "CreatedAt");
  member(members, "Status", isText);
  const id = member(members, "Id", isText), version = member(members, "Version", isNumber);
  const publicKey = member(members, "PublicKey", isBytes), type = member(members, "Type", isText);
  keyOf(publicKey);
  const parent = optional(members, "Parent", () => member(members, "Parent", isText));
  return { id, version, type, parent, publicKey, certificate, name: `${id}#${version}` };
}

function readSigningKeys(blob, reference, tenant) {
  need(blob.length <= reference.number, "too_large");
  need(sha256(blob).equals(reference.sha256), "hash");
  const members = decode(blob, false), keys = listOf(members, "Keys", isMap).map(readSigningKey);
  // By identifier, then by version: a text ends before a longer one goes on.
  rising(keys.map(({ id, version }) => bytesOf(`${id}\0${String(version).padStart(16, "0")}`)));
  need(member(members, "Tenant", isText) === tenant, "tenant");
  return keys;
}

function isCertified(key, signer, tenant) {
  const { id, version, type, parent, publicKey } = key;
  const isFirst = version === 1 && parent === signer.id && ["root", "issuer"].includes(signer.type);
  const isNext = version !== 1 && id === signer.id && version - 1 === signer.version && type === signer.type && parent === signer.parent;
  const members = { Tenant: tenant, Id: id, Version: version, Type: type, Parent: parent, PublicKey: publicKey, By: signer.name };
  const data = encode(new Map(Object.entries(members)));
  return (isFirst || isNext) && isSigned("rescind-key-v1\n", data, key.certificate.signature, hexOf(signer.publicKey));
}

// Each key is covered by the document, or certified by one that is.
function checkCertificates(keys, covered, tenant) {
  const ready = keys.filter((key) => !key.certificate), waiting = new Set(keys.filter((key) => key.certificate));
  const lasting = ready.map(({ id, version, type, parent, publicKey }) => [id, version, type, parent, publicKey]);
  need(sha256("rescind-keys-v1\n", encode(lasting)).equals(covered), "certificate");
  for (const signer of ready) {
    for (const key of waiting) {
      if (key.certificate.by !== signer.name) continue;
      need(isCertified(key, signer, tenant), "certificate");
      waiting.delete(key);
      ready.push(key);
    }
  }
  need(!waiting.size, "certificate");
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

function advance(state, answer, base, now, { tenant, floor, held }) {
  const head = verified(answer, now, held);
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

// `signer` is the key of the newest head; `isTrusted` says whether the document still names it.
let state = null, end = null, trust = {};

function answered(answer) {
  try { return answer(); } catch (error) {
    if (error instanceof NeedsBase) return { needs_base: +error.message };
    if (error instanceof Refused) return { refused: error.message };
    throw error;
  }
}

const commands = {
  init({ tenant, trust_root, public_keys = [], floor }) {
    state = end = null;
    const place = floor && { sequence: floor.sequence, chain: base64(floor.chain) };
    const signer = floor?.signer ? hexOf(base64(floor.signer)) : null;
    const known = public_keys.map((key) => keyOf(base64(key)));
    trust = { tenant, pin: trust_root, known, held: null, floor: place, signer, isTrusted: false };
    return { ready: true };
  },
  trust: ({ now, response }) => answered(() => {
    const documents = readDocuments(response);
    if (!documents.length) return { version: trust.held?.version ?? 0 };
    const pin = pinOf(documents, trust), held = follow(documents, +new Date(now), { ...trust, pin });
    const isNamed = named(held).includes(trust.signer);
    const floor = isNamed && trust.floor ? trust.floor : held.feed, signer = isNamed ? trust.signer : null;
    trust = { ...trust, pin, held, floor, signer, isTrusted: isNamed && trust.isTrusted };
    return { version: held.version };
  }),
  signing_keys: ({ blob }) => answered(() => {
    const keys = readSigningKeys(base64(blob), state.head.keys, trust.tenant);
    if (trust.held.signingKeys) checkCertificates(keys, trust.held.signingKeys, trust.tenant);
    return { keys: keys.length };
  }),
  restart() {
    if (state && trust.isTrusted) trust.floor = { sequence: state.head.sequence, chain: state.head.chain };
    state = end = null;
    return { ready: true };
  },
  poll: ({ now, answer, base }) => answered(() => {
    const data = base === null ? null : base64(base);
    state = advance(trust.isTrusted ? state : null, readAnswer(answer), data, +new Date(now), trust);
    trust = { ...trust, signer: state.head.signer, isTrusted: true };
    return { sequence: state.head.sequence };
  }),
  confirm({ now, age, max_staleness }) {
    end = Math.max(end ?? -Infinity, +new Date(now) + (max_staleness - age) * SECOND);
    return { ready: true };
  },
  check({ now, ids }) {
    if (state && ids.some((id) => state.ids.has(id))) return { verdict: "revoked" };
    const last = Math.min(end ?? Infinity, state?.head.expiresAt, trust.held?.expiresAt);
    return { verdict: trust.isTrusted && +new Date(now) < last ? "clear" : "stale" };
  },
};

for await (const line of createInterface({ input: process.stdin })) {
  const [[name, given]] = Object.entries(JSON.parse(line));
  console.log(JSON.stringify(commands[name](given)));
}
