// Persists the client state that prevents rollback.

import { equal, fromHex, hash, hex, textOf, utf8, type Bytes } from "./bytes.js";
import { readDocuments, writeDocument, type Belief } from "./trust.js";
import { readAnswer, writeAnswer, type Answer, type Position } from "./wire.js";

/** Stores a few small files by name. Each client needs a separate store. */
export interface StateStore {
  /** The default name of the client in heartbeats. */
  readonly name?: string;
  /** The last data written under this name, or null if there is none. */
  read(name: string): Promise<Uint8Array | null>;
  /** Replaces a file atomically. Once this resolves, a power failure does not lose the data. */
  write(name: string, data: Uint8Array): Promise<void>;
}

/** Loses its files at a restart. Use it for tests and tools, never for an authorizer. */
export class MemoryStateStore implements StateStore {
  private readonly files = new Map<string, Uint8Array>();

  async read(name: string): Promise<Uint8Array | null> {
    return this.files.get(name) ?? null;
  }

  async write(name: string, data: Uint8Array): Promise<void> {
    this.files.set(name, data);
  }
}

/** The saved state cannot be used. The message contains the reason and the remedy. */
export class StateError extends Error {}

/**
 * The saved position of a client. `signer` (in hex) signed its head, or is null if the position
 * comes from the trust document. `restorable` contains the data to restore the state. `answeredAt`
 * is when the service confirmed it, in milliseconds since 1970.
 */
export interface Saved {
  readonly tenant: string;
  readonly position: Position;
  readonly signer: string | null;
  readonly answeredAt: number;
  readonly restorable: Restorable | null;
  readonly belief: Pick<Belief, "pin" | "held">;
}

/** The answers that restore a state, with its base in the file `base`. */
export interface Restorable {
  readonly base: string;
  readonly sha256: Bytes;
  readonly origin: Answer;
  readonly latest: Answer;
}

const FILE = "floor.json";
const CLIENT = "typescript";
const FORMAT = 1;

const again = "Stop the client, remove its saved state, and start it again with trustPin";

/**
 * The saved state of a tenant. Throws `StateError` if it is damaged, or belongs to another client.
 */
export async function load(store: StateStore, tenant: string): Promise<Saved | null> {
  const data = await store.read(FILE);
  if (!data) return null;
  let saved: Saved;
  try {
    saved = decoded(data);
  } catch (error) {
    if (error instanceof StateError) throw error;
    throw new StateError(`the saved state is damaged (${String(error)}). ${again}`);
  }
  if (saved.tenant !== tenant) {
    throw new StateError(`the saved state belongs to ${saved.tenant}: use a separate store for each tenant`);
  }
  return saved;
}

/** Replaces the saved state. */
export function save(store: StateStore, saved: Saved): Promise<void> {
  const { tenant, position, signer, answeredAt, restorable, belief } = saved;
  const document = {
    client: CLIENT,
    format: FORMAT,
    tenant,
    sequence: position.sequence,
    chain: hex(position.chain),
    signer,
    answered_at: answeredAt,
    base: restorable && restorable.base,
    base_sha256: restorable && hex(restorable.sha256),
    origin: restorable && writeAnswer(restorable.origin),
    latest: restorable && writeAnswer(restorable.latest),
    pin: belief.pin,
    trust: belief.held && writeDocument(belief.held),
  };
  const data = JSON.stringify(document, null, 1);
  return store.write(FILE, utf8(`${hex(hash(utf8(data)))}\n${data}`));
}

/** Stores a base without overwriting the base `before`, and returns its file name. */
export async function saveBase(store: StateStore, data: Uint8Array, before: string | null): Promise<string> {
  const name = before === "base-0.cbor" ? "base-1.cbor" : "base-0.cbor";
  await store.write(name, data);
  return name;
}

/** The base of a saved state, or null if it is missing or different. */
export async function loadBase(store: StateStore, { base, sha256 }: Restorable): Promise<Bytes | null> {
  const data = await store.read(base);
  return data && equal(hash(data), sha256) ? new Uint8Array(data) : null;
}

function decoded(data: Uint8Array): Saved {
  const written = textOf(data), end = written.indexOf("\n"), rest = written.slice(end + 1);
  if (hex(hash(utf8(rest))) !== written.slice(0, end)) throw new Error("its hash is wrong");
  const members = JSON.parse(rest) as Record<string, unknown>, { client = "Python", format } = members;
  // A saved state belongs to one client library, because libraries save different data.
  if (client !== CLIENT) {
    throw new StateError(`it was saved by the ${String(client)} client: use a separate store for each client`);
  }
  if (typeof format !== "number" || format > FORMAT) {
    throw new StateError(`a newer version of this client wrote the saved state. ${again}, or install that version`);
  }
  const text = (name: string): string => {
    const value = members[name];
    if (typeof value !== "string") throw new Error(`${name} is not a text`);
    return value;
  };
  const whole = (name: string): number => {
    const value = members[name];
    if (typeof value !== "number" || !Number.isSafeInteger(value)) throw new Error(`${name} is not a number`);
    return value;
  };
  const has = (name: string): boolean => members[name] !== null;
  const [held] = readDocuments(utf8(text("trust")));
  if (!held) throw new Error("it has no trust document");
  return {
    tenant: text("tenant"),
    position: { sequence: whole("sequence"), chain: fromHex(text("chain")) },
    signer: has("signer") ? text("signer") : null,
    answeredAt: whole("answered_at"),
    restorable: has("base") ? {
      base: text("base"),
      sha256: fromHex(text("base_sha256")),
      origin: readAnswer(utf8(text("origin"))),
      latest: readAnswer(utf8(text("latest"))),
    } : null,
    belief: { pin: text("pin"), held },
  };
}
