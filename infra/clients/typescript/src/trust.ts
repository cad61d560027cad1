// Trust documents, the heads and signing keys that they cover (docs/spec/trust.md). A belief is
// immutable: `followed` returns a new one or throws.

import { concat, equal, fromHex, hash, hex, toBase64, utf8, type Bytes } from "./bytes.js";
import {
  blobs, bytes, decode, digest, encode, moment, need, number, optional, rising, table, tables, text, texts, type Members,
} from "./cbor.js";
import { isSafe, isSigned, keyOf } from "./ed25519.js";
import type { JudgedHead } from "./state.js";
import {
  base64, check, FUTURE_MAX, json, listOf, member, positionOf, readHead, reading, Refused, refuse, signedPart,
  type Answer, type Position, type Reference,
} from "./wire.js";

/** The maximum size of a response of `GET /v1/trust`, in bytes. */
export const TRUST_MAX = 6 * 2 ** 20;
const DOCUMENTS_MAX = 64;
const DOCUMENT_MAX = 65_536;
const SIGNATURES_MAX = 16;
const SIGNERS_MAX = 256;
const ROOTS_MAX = 8;
const LIFETIME_MAX = 400 * 86_400_000;

const PIN = /^[0-9a-f]{64}$/;

interface Roots {
  readonly keys: readonly Bytes[];
  readonly threshold: number;
  readonly pin: string;
}

interface Signer {
  readonly key: Bytes;
  readonly uses: readonly string[];
}

/** The log anchor of a document: an origin, a tree size, and the root hash (32 bytes) at it. */
export interface LogAnchor {
  readonly origin: string;
  readonly size: number;
  readonly root: Bytes;
}

/** A trust document with its bytes and its signatures by key in hex, none of them verified. */
export interface SignedDocument {
  readonly payload: Bytes;
  readonly signatures: ReadonlyMap<string, Bytes>;
  readonly hash: Bytes;
  readonly tenant: string;
  readonly version: number;
  readonly issuedAt: number;
  readonly expiresAt: number;
  readonly roots: Roots;
  readonly signers: readonly Signer[];
  readonly feed: Position;
  readonly signingKeys: Bytes | null;
  readonly log: LogAnchor | null;
}

/** The trust of a client in a tenant: `held` follows from the trust root of `pin`. */
export interface Belief {
  readonly tenant: string;
  readonly pin: string;
  readonly held: SignedDocument | null;
}

/** Whether a text has the form of a pin. */
export const isPin = (text: string): boolean => PIN.test(text);

/** The belief of a client with a pin. Throws a `TypeError` if the pin is invalid. */
export function pinned(tenant: string, pin: string): Belief {
  if (!isPin(pin)) throw new TypeError("trustPin must be the 64 digits that `rescind trust show` prints");
  return { tenant, pin, held: null };
}

/**
 * Return the belief after a restart. A saved document is kept unless it follows from another pin.
 */
export function resumeBelief(belief: Belief, { pin, held }: Pick<Belief, "pin" | "held">): Belief {
  const follows = belief.pin === pin || belief.pin === held?.roots.pin;
  return follows ? { ...belief, held } : belief;
}

function rootsOf(members: Members): Roots {
  const keys = blobs(members, "Keys").map((key) => new Uint8Array(key));
  const threshold = number(members, "Threshold");
  need(keys.every(isSafe), "Keys must be of Ed25519");
  rising(keys, "Keys");
  need(threshold >= 1 && threshold <= keys.length, "Threshold must be 1 to the number of keys");
  need(keys.length <= ROOTS_MAX, "Roots has too many keys");
  // An unknown member could change the meaning of the roots, so it is rejected.
  need(members.size === 2, "Roots must have no other member");
  return { keys, threshold, pin: hex(hash(utf8("rescind-roots-v1\n"), encode(members))) };
}

function signersOf(members: Members): Signer[] {
  const signers = tables(members, "Signers").map((each) => ({ key: keyOf(each, "Key"), uses: texts(each, "Uses") }));
  for (const { uses } of signers) {
    need(uses.length > 0, "Uses is empty");
    rising(uses, "Uses");
  }
  need(signers.length <= SIGNERS_MAX, "there are too many signers");
  rising(signers.map(({ key }) => key), "Signers");
  return signers;
}

function logOf(members: Members, name: string): LogAnchor {
  const log = table(members, name);
  return { origin: text(log, "Origin"), size: number(log, "Size"), root: digest(log, "Root") };
}

/** Clients of the feed do not use the witnesses, but their format is checked. */
function checkWitnesses(members: Members): void {
  optional(members, "Witnesses", (_, name) => {
    const witnesses = table(members, name), keys = texts(witnesses, "Keys");
    rising(keys, "Keys");
    need(number(witnesses, "Quorum") <= keys.length, "Quorum is above the number of witnesses");
  });
}

function readDocument(payload: Bytes, signatures: ReadonlyMap<string, Bytes>): SignedDocument {
  check(payload.length <= DOCUMENT_MAX, "too_large");
  check(signatures.size <= SIGNATURES_MAX, "too_large");
  return reading(() => {
    const members = decode(payload), roots = rootsOf(table(members, "Roots")), signers = signersOf(members);
    checkWitnesses(members);
    const rootKeys = new Set(roots.keys.map(hex));
    need(!signers.some(({ key }) => rootKeys.has(hex(key))), "a root signs nothing but documents");
    const version = number(members, "Version");
    need(version >= 1, "Version must be 1 or more");
    return {
      payload,
      signatures,
      hash: hash(payload),
      tenant: text(members, "Tenant"),
      version,
      issuedAt: moment(members, "IssuedAt"),
      expiresAt: moment(members, "ExpiresAt"),
      roots,
      signers,
      feed: positionOf(table(members, "Feed")),
      signingKeys: optional(members, "SigningKeys", digest),
      log: optional(members, "Log", logOf),
    };
  });
}

/** The documents in a response of `GET /v1/trust`, in their order. */
export function readDocuments(body: Uint8Array): SignedDocument[] {
  const given = listOf(json(body, TRUST_MAX)["documents"], (each) => {
    const forms = listOf(member(each, "Signatures"), (one) => {
      return [hex(base64(member(one, "Key"))), base64(member(one, "Signature"))] as const;
    });
    const signatures = new Map(forms);
    check(signatures.size === forms.length, "malformed");
    return [base64(member(each, "Payload")), signatures] as const;
  });
  check(given.length <= DOCUMENTS_MAX, "too_large");
  return given.map(([payload, signatures]) => readDocument(payload, signatures));
}

/** A response with one document, which `readDocuments` reads. */
export function writeDocument({ payload, signatures }: SignedDocument): string {
  const forms = [...signatures].map(([key, signature]) => ({
    Key: toBase64(fromHex(key)),
    Signature: toBase64(signature),
  }));
  return JSON.stringify({ documents: [{ Payload: toBase64(payload), Signatures: forms }] });
}

/** The document, if enough of these roots signed it. Throws `Refused`. */
async function signed(document: SignedDocument, { keys, threshold }: Roots): Promise<SignedDocument> {
  const part = concat(utf8("rescind-trust-v1\n"), document.hash);
  let left = threshold;
  for (const key of keys) {
    const signature = document.signatures.get(hex(key));
    if (signature && (await isSigned(part, signature, key))) left -= 1;
  }
  return left <= 0 ? document : refuse("root");
}

/** The held document after processing the next document of a response. */
async function after(
  held: SignedDocument | null, next: SignedDocument, pin: string,
): Promise<SignedDocument | null> {
  if (!held) return next.roots.pin === pin ? signed(next, next.roots) : null;
  if (next.version < held.version || equal(next.payload, held.payload)) return held;
  // Only a signed document is evidence of equivocation by the roots.
  await signed(next, held.roots);
  check(next.version > held.version, "equivocation");
  return signed(next, next.roots);
}

/**
 * The belief after the documents of a response, or the same belief without a change (TRUST-12).
 * `now` is in milliseconds since 1970. Save the result before using it. Throws `Refused`.
 */
export async function followed(belief: Belief, documents: readonly SignedDocument[], now: number): Promise<Belief> {
  const last = documents.at(-1);
  if (!last) return belief;
  check(documents.every((each) => each.tenant === belief.tenant), "tenant");
  let held = belief.held;
  for (const each of documents) held = await after(held, each, belief.pin);
  if (!held) return refuse("root");
  check(last.version >= held.version, "rollback");
  if (held === belief.held) return belief;
  const lifetime = held.expiresAt - held.issuedAt;
  check(lifetime > 0 && lifetime <= LIFETIME_MAX, "lifetime");
  check(held.issuedAt - now <= FUTURE_MAX, "future");
  return { ...belief, held };
}

/** The keys, in hex, that may sign heads. */
export const listSigners = ({ held }: Belief): string[] => findKeys(held, "lists").map(hex);

/** Return the keys that a document names for a use, even if the document has expired. */
export const findKeys = (held: SignedDocument | null, use: string): Bytes[] =>
  (held?.signers ?? []).filter(({ uses }) => uses.includes(use)).map(({ key }) => key);

/**
 * Return the keys of `findKeys`. Throws `Refused` for an expired document (TRUST-13). `now` is in
 * milliseconds.
 */
export const findValidKeys = (held: SignedDocument, use: string, now: number): Bytes[] =>
  isExpired(held, now) ? refuse("trust_expired") : findKeys(held, use);

const isExpired = ({ expiresAt }: SignedDocument, now: number): boolean => now >= expiresAt;

/** Whether a client should read documents, and check the same answer again. */
export const isOfDocuments = (error: unknown): boolean =>
  error instanceof Refused && ["signature", "trust_expired", "behind"].includes(error.reason);

/**
 * The head of an answer signed by a key of the held document, even if expired. Throws `Refused`.
 */
export async function verified({ held }: Belief, { payload, signature }: Answer): Promise<JudgedHead> {
  const part = signedPart(payload);
  for (const key of findKeys(held, "lists")) {
    if (await isSigned(part, signature, key)) return { head: reading(() => readHead(payload)), signer: hex(key) };
  }
  return refuse("signature");
}

/** The head of an answer, if the held document covers it (TRUST-13). Throws `Refused`. */
export async function judged(belief: Belief, answer: Answer, now: number): Promise<JudgedHead> {
  const found = await verified(belief, answer), { trust } = found.head;
  const held = belief.held ?? refuse("signature");
  check(!isExpired(held, now), "trust_expired");
  check(!trust || trust.number <= held.version, "behind");
  check(trust?.number !== held.version || equal(trust.sha256, held.hash), "equivocation");
  return found;
}

/** The lowest accepted position of a head, if `signer` signed the saved head (TRUST-14). */
export function positionAfter(belief: Belief, signer: string | null, saved: Position | null): Position | null {
  const counts = saved !== null && signer !== null && listSigners(belief).includes(signer);
  return !belief.held || counts ? saved : belief.held.feed;
}

interface Certificate {
  readonly by: string;
  readonly signature: Bytes;
}

/** A version of a signing key. `name` is its identifier with the version (TRUST-9). */
export interface SigningKey {
  readonly name: string;
  readonly id: string;
  readonly version: number;
  readonly type: string;
  readonly parent: string | null;
  readonly status: string;
  readonly publicKey: Bytes;
  readonly certificate: Certificate | null;
}

function readSigningKey(members: Members): SigningKey {
  for (const name of ["ExpiresAt", "RotatedAt", "SuspendedAt", "RevokedAt"]) optional(members, name, moment);
  moment(members, "CreatedAt");
  const id = text(members, "Id"), version = number(members, "Version");
  return {
    name: `${id}#${version}`,
    id,
    version,
    type: text(members, "Type"),
    parent: optional(members, "Parent", text),
    status: text(members, "Status"),
    publicKey: keyOf(members, "PublicKey"),
    certificate: optional(members, "Certificate", (_, name) => {
      const given = table(members, name);
      return { by: text(given, "By"), signature: bytes(given, "Signature", 64) };
    }),
  };
}

function readBlob(blob: Bytes, reference: Reference, tenant: string): SigningKey[] {
  check(blob.length <= reference.number, "too_large");
  check(equal(hash(blob), reference.sha256), "hash");
  return reading(() => {
    const members = decode(blob, false), keys = tables(members, "Keys").map(readSigningKey);
    // Sorts by identifier, then by version. The separator sorts a prefix before a longer
    // identifier.
    rising(keys.map(({ id, version }) => utf8(`${id}\0${String(version).padStart(16, "0")}`)), "Keys");
    check(text(members, "Tenant") === tenant, "tenant");
    return keys;
  });
}

/** The verified signing keys in the blob that a head references (TRUST-15). Throws `Refused`. */
export async function readSigningKeys(
  blob: Bytes, reference: Reference, { tenant, held }: Belief,
): Promise<SigningKey[]> {
  const keys = readBlob(blob, reference, tenant);
  if (held?.signingKeys) await checkCertificates(keys, held.signingKeys, tenant);
  return keys;
}

/** The document must cover each key, or certificates must lead to it from a covered key. */
async function checkCertificates(keys: readonly SigningKey[], covered: Bytes, tenant: string): Promise<void> {
  const ready = keys.filter((key) => !key.certificate);
  const waiting = new Map<string, SigningKey[]>();
  for (const key of keys) {
    if (key.certificate) waiting.set(key.certificate.by, [...(waiting.get(key.certificate.by) ?? []), key]);
  }
  const lasting = ready.map((key) => [key.id, key.version, key.type, key.parent, key.publicKey]);
  check(equal(hash(utf8("rescind-keys-v1\n"), encode(lasting)), covered), "certificate");
  for (const signer of ready) {
    for (const key of waiting.get(signer.name) ?? []) {
      check(await isCertified(key, signer, tenant), "certificate");
      ready.push(key);
    }
  }
  check(ready.length === keys.length, "certificate");
}

async function isCertified(key: SigningKey, signer: SigningKey, tenant: string): Promise<boolean> {
  const isFirst = key.version === 1 && key.parent === signer.id && ["root", "issuer"].includes(signer.type);
  const isNext = key.version !== 1 && key.id === signer.id && key.version - 1 === signer.version
    && key.type === signer.type && key.parent === signer.parent;
  if (!key.certificate || !(isFirst || isNext)) return false;
  const members = new Map(Object.entries({
    Tenant: tenant, Id: key.id, Version: key.version, Type: key.type, Parent: key.parent,
    PublicKey: key.publicKey, By: signer.name,
  }));
  return isSigned(concat(utf8("rescind-key-v1\n"), encode(members)), key.certificate.signature, signer.publicKey);
}
