// The wire format of the feed: answers, heads, entries and bases (docs/spec/feed.md).

import {
  decode, digest, Malformed, moment, need, number, optional, rising, table, text, texts, type Members,
} from "./cbor.js";
import { concat, equal, fromBase64, hash, textOf, toBase64, utf8, type Bytes } from "./bytes.js";

/** Why an answer, a base or a trust document was rejected. The values are stable. */
export type Reason =
  | "too_large" | "malformed" | "signature" | "tenant" | "lifetime" | "future" | "expired" | "rollback"
  | "equivocation" | "replay" | "chain" | "break" | "gap" | "fast_forward" | "hash" | "version"
  | "root" | "trust_expired" | "behind" | "certificate";

/** A response that a client must not use. The client keeps its state. */
export class Refused extends Error {
  constructor(readonly reason: Reason) {
    super(reason);
  }
}

export function refuse(reason: Reason): never {
  throw new Refused(reason);
}

export function check(holds: boolean, reason: Reason): void {
  if (!holds) refuse(reason);
}

/** The result of `read`. A format violation is rejected as malformed. */
export function reading<T>(read: () => T): T {
  try {
    return read();
  } catch (error) {
    if (error instanceof Malformed) return refuse("malformed");
    throw error;
  }
}

/** The maximum size of a response to a poll, in bytes. */
export const ANSWER_MAX = 4 * 2 ** 20;
/** How far ahead of a client's clock an issue time may be, in milliseconds. */
export const FUTURE_MAX = 30_000;

const HINT_MAX = 60;
const ID_MAX = 72;
/** The maximum nesting of objects and arrays in JSON. */
const DEPTH_MAX = 64;
const WARRANT_ID = /^svc_wrt_[A-Za-z0-9_-]{1,64}$/;

/** Whether the list is not empty, and contains only warrant identifiers. */
export const areWarrantIds = (ids: readonly unknown[]): ids is string[] =>
  ids.length > 0 && ids.every((id) => typeof id === "string" && WARRANT_ID.test(id));

/** A place in the feed: a sequence, and the chain hash (32 bytes) at it. */
export interface Position {
  readonly sequence: number;
  readonly chain: Bytes;
}

/** A published SRL that covers all entries up to `sequence`. Its payload has the hash `sha256`. */
export interface Base extends Position {
  readonly version: number;
  readonly sha256: Bytes;
  readonly count: number;
}

/** A reference in a head: a hash, and a version or a size in bytes. */
export interface Reference {
  readonly sha256: Bytes;
  readonly number: number;
}

/** The signed end of a feed. Times are in milliseconds since 1970. */
export interface Head extends Position {
  readonly tenant: string;
  readonly issuedAt: number;
  readonly expiresAt: number;
  readonly base: Base;
  readonly trust: Reference | null;
  readonly keys: Reference | null;
}

/** A change of the set of revoked warrants. Without both members, it is a discontinuity. */
export interface Entry {
  readonly sequence: number;
  readonly revoked: readonly string[];
  readonly removed: readonly string[];
}

/** An encoded head, and the encoded entries that end at it. The hints are not signed. */
export interface Answer {
  readonly payload: Bytes;
  readonly signature: Bytes;
  readonly entries: readonly Bytes[];
  readonly pollSeconds: number;
  readonly maxWaitSeconds: number;
}

type Json = { [name: string]: unknown };

const asObject = (value: unknown): Json =>
  typeof value === "object" && value !== null ? (value as Json) : refuse("malformed");

/** The list in a JSON `value`, with each element converted by `read`. */
export const listOf = <T>(value: unknown, read: (each: unknown) => T): T[] =>
  Array.isArray(value) ? value.map(read) : refuse("malformed");

/** The nesting depth of objects and arrays in JSON. */
function depthOf(body: Uint8Array): number {
  let depth = 0, deepest = 0, isText = false;
  for (let at = 0; at < body.length; at += 1) {
    const each = String.fromCharCode(body[at]!);
    if (each === '"') isText = !isText;
    else if (isText) at += each === "\\" ? 1 : 0;
    else if (each === "[" || each === "{") deepest = Math.max(deepest, (depth += 1));
    else if (each === "]" || each === "}") depth -= 1;
  }
  return deepest;
}

/** The JSON object in a response of at most `most` bytes. */
export function json(body: Uint8Array, most: number): Json {
  check(body.length <= most, "too_large");
  check(depthOf(body) <= DEPTH_MAX, "malformed");
  try {
    return asObject(JSON.parse(textOf(body)));
  } catch {
    return refuse("malformed");
  }
}

export function base64(value: unknown): Bytes {
  return fromBase64(value) ?? refuse("malformed");
}

export const member = (value: unknown, name: string): unknown => asObject(value)[name];

const hint = (value: unknown): number =>
  Number.isFinite(value) ? Math.min(Math.max(value as number, 0), HINT_MAX) : refuse("malformed");

/** The answer in the body of a response. */
export function readAnswer(body: Uint8Array): Answer {
  const { head, entries, poll_seconds: pollSeconds = 1, max_wait_seconds: maxWaitSeconds = 0 } = json(body, ANSWER_MAX);
  return {
    payload: base64(member(head, "Payload")),
    signature: base64(member(head, "Signature")),
    entries: listOf(entries, base64),
    pollSeconds: hint(pollSeconds),
    maxWaitSeconds: Math.floor(hint(maxWaitSeconds)),
  };
}

/** The JSON that `readAnswer` reads, for saving an answer. */
export function writeAnswer({ payload, signature, entries, pollSeconds, maxWaitSeconds }: Answer): string {
  const head = { Payload: toBase64(payload), Signature: toBase64(signature) };
  return JSON.stringify({ head, entries: entries.map(toBase64), poll_seconds: pollSeconds, max_wait_seconds: maxWaitSeconds });
}

const referenceOf = (counted: string) => (members: Members, name: string): Reference => {
  const named = table(members, name);
  return { sha256: digest(named, "SHA256"), number: number(named, counted) };
};

export const positionOf = (members: Members): Position => ({
  sequence: number(members, "Sequence"),
  chain: digest(members, "Chain"),
});

/** The head in a payload with a verified signature. */
export function readHead(payload: Uint8Array): Head {
  const members = decode(payload);
  const base = table(members, "Base");
  const head: Head = {
    ...positionOf(members),
    tenant: text(members, "Tenant"),
    issuedAt: moment(members, "IssuedAt"),
    expiresAt: moment(members, "ExpiresAt"),
    base: {
      ...positionOf(base),
      version: number(base, "Version"),
      sha256: digest(base, "SHA256"),
      count: number(base, "Count"),
    },
    trust: optional(members, "Trust", referenceOf("Version")),
    keys: optional(members, "Keys", referenceOf("Size")),
  };
  need(head.base.sequence <= head.sequence, "the base is newer than the head");
  return head;
}

function checkIds(ids: readonly string[], name: string): void {
  need(ids.every((each) => utf8(each).length <= ID_MAX), `${name} has an identifier that is too long`);
  rising(ids, name);
}

function idsOf(members: Members, name: string): string[] {
  if (!members.has(name)) return [];
  const ids = texts(members, name);
  need(ids.length > 0, `${name} is empty`);
  checkIds(ids, name);
  return ids;
}

/** The entry in these bytes. */
export function readEntry(data: Uint8Array): Entry {
  const members = decode(data);
  const revoked = idsOf(members, "Revoked");
  const removed = idsOf(members, "Removed");
  const both = new Set(removed);
  need(!revoked.some((id) => both.has(id)), "an entry revokes and removes the same warrant");
  return { sequence: number(members, "Sequence"), revoked, removed };
}

export const isBreak = ({ revoked, removed }: Entry): boolean => !revoked.length && !removed.length;

/** The maximum size of a base payload, in bytes. */
export const baseSizeMax = ({ count }: Base): number => (count + 2) * 80;

/** The identifiers in an SRL payload, which must match `base`. */
export function readBase(data: Uint8Array, base: Base): string[] {
  check(data.length <= baseSizeMax(base), "too_large");
  check(equal(hash(data), base.sha256), "hash");
  const members = reading(() => decode(data));
  const ids = reading(() => texts(members, "RevokedIDs"));
  check(ids.length === base.count, "malformed");
  reading(() => checkIds(ids, "RevokedIDs"));
  check(members.get("Version") === base.version, "version");
  return ids;
}

/** The chain hash after an encoded entry that follows `chain`. */
export const nextChain = (chain: Bytes, entry: Bytes): Bytes => hash(chain, hash(entry));

/** The bytes that the signature of a head covers. */
export const signedPart = (payload: Bytes): Bytes => concat(utf8("rescind-feed-head-v1\n"), payload);
