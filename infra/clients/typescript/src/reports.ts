// Sends heartbeats to the service (FLEET-2), which show the owner that this client enforces a
// revocation.

import { concat, fromBase64, toBase64, utf8, type Bytes } from "./bytes.js";
import { encode, momentOf, NUMBER_MAX, type Value } from "./cbor.js";
import type { StateStore } from "./saved_state.js";
import type { Emit, Follower } from "./follower.js";
import { NoAnswer, printable, Transport, unexpected, type Received } from "./transport.js";
import type { Policy, View } from "./view.js";
import { json, Refused } from "./wire.js";

export const VERSION = "0.4.0-dev.0";
const FEATURES = ["subject-cutoffs"];

/** Whether a client sends heartbeats. `unsupported` means that the service accepts none. */
export type Reporting = "off" | "waiting" | "on" | "failing" | "unsupported";

const ANSWER_MAX = 64 * 1024;
const KEY_FILE = "identity.key";
/** The seconds between checks for news to report. */
const LOOK = 1;
const ASK_AGAIN = 3600;
const FAILED_MAX = 300;
/** The clock difference, in milliseconds, from which a service may reject a proof. */
const CLOCK_DIFFERS = 20_000;

/** The key that signs registrations and heartbeats (TRUST-10). */
class Identity {
  private constructor(private readonly key: CryptoKey, private readonly publicKey: Bytes) {}

  /** The identity in a state store. It is created if there is none. */
  static async of(store: StateStore): Promise<Identity> {
    const pem = await store.read(KEY_FILE);
    if (!pem) {
      const pair = (await crypto.subtle.generateKey({ name: "Ed25519" }, true, ["sign", "verify"])) as CryptoKeyPair;
      const der = toBase64(new Uint8Array(await crypto.subtle.exportKey("pkcs8", pair.privateKey)));
      await store.write(KEY_FILE, utf8(`-----BEGIN PRIVATE KEY-----\n${der}\n-----END PRIVATE KEY-----\n`));
      return new Identity(pair.privateKey, new Uint8Array(await crypto.subtle.exportKey("raw", pair.publicKey)));
    }
    const der = fromBase64(new TextDecoder().decode(pem).replace(/-----[A-Z ]+-----|\s/g, ""));
    const key = der && (await crypto.subtle.importKey("pkcs8", der, { name: "Ed25519" }, true, ["sign"]).catch(() => null));
    if (!key) {
      throw new Error(`${KEY_FILE} of the saved state is not an Ed25519 key in PEM. Delete the file, and ask the `
        + "operator of the service to remove the registration of this authorizer");
    }
    const { x = "" } = await crypto.subtle.exportKey("jwk", key);
    return new Identity(key, fromBase64(`${x.replaceAll("-", "+").replaceAll("_", "/")}=`) ?? new Uint8Array());
  }

  proof(tenant: string, name: string, now: number): Promise<{ payload: string; signature: string }> {
    const members = { Tenant: tenant, Name: name, PublicKey: this.publicKey, IssuedAt: momentOf(now) };
    return this.signed("rescind-register-v1\n", members);
  }

  async report(members: Record<string, Value>): Promise<{ report: string; signature: string }> {
    const { payload, signature } = await this.signed("rescind-report-v1\n", members);
    return { report: payload, signature };
  }

  private async signed(prefix: string, members: Record<string, Value>): Promise<{ payload: string; signature: string }> {
    const payload = encode(new Map(Object.entries(members)));
    const signature = await crypto.subtle.sign({ name: "Ed25519" }, this.key, concat(utf8(prefix), payload));
    return { payload: toBase64(payload), signature: toBase64(new Uint8Array(signature)) };
  }
}

/** Registers a client, and sends heartbeats signed by the key in its state store. */
export class Reporter {
  reporting: Reporting = "waiting";
  private identity: Identity | null = null;
  private id: string | null = null;
  private after = 300;
  private spread = 0;
  private next = -Infinity;
  private turn: number | null = null;
  private reported: number | null = null;
  private failures = 0;
  private lastNumber = 0;
  /** How far the clock of the service is ahead of the local clock, in milliseconds. */
  private ahead = 0;
  private readonly place = Math.random();
  private sent: Record<string, number> = {};

  constructor(
    private readonly transport: Transport,
    private readonly policy: Policy,
    private readonly follower: Follower,
    private readonly refusals: Readonly<Record<string, number>>,
    private readonly emit: Emit,
    private readonly store: StateStore,
    private readonly name: string,
  ) {}

  /** Sends a heartbeat if one is due. Returns the seconds until the next step. Never throws. */
  async step(): Promise<number> {
    const { view } = this.follower;
    if (!view.state) return LOOK;
    const left = this.due(view.state.head.sequence) - seconds();
    if (left > 0) return Math.min(left, LOOK);
    try {
      await (this.id === null ? this.register() : this.tell(this.id, view));
    } catch (error) {
      this.failed(printable(String(error)), null, error instanceof NoAnswer ? error.retryAfter : 0);
    }
    return 0;
  }

  /**
   * The time of the next heartbeat. The client has one turn in each period of `spread`, at a random
   * place.
   */
  private due(sequence: number): number {
    if (this.id === null || this.failures || sequence === this.reported) return this.next;
    const now = seconds(), { spread } = this;
    this.turn ??= spread ? now + ((((this.place * spread - now) % spread) + spread) % spread) : now;
    return this.turn;
  }

  private async register(): Promise<void> {
    const identity = (this.identity ??= await Identity.of(this.store));
    const proof = await identity.proof(this.follower.belief.tenant, this.name, Date.now() + this.ahead);
    const body = { name: this.name, type: "rescind-authorizer", version: VERSION, features: FEATURES, proof };
    const answer = await this.post("/v1/authorizers/register", body, "id");
    if (!answer) return;
    // Keep the failure count until a heartbeat is accepted, because all of them may fail.
    this.id = answer.word;
    this.lastNumber = Math.max(this.lastNumber, answer.lastNumber);
    this.reported = this.turn = null;
    this.next = seconds();
  }

  private async tell(id: string, { state, confirmed }: View): Promise<void> {
    if (!state) return;
    const { sequence, chain } = state.head, counts = { ...this.refusals }, { tenant, held } = this.follower.belief;
    const news = Object.entries(counts).map(([reason, count]) => [reason, count - (this.sent[reason] ?? 0)] as const);
    const refused = news.filter(([, count]) => count > 0);
    const verifiedAt = Number.isFinite(confirmed.wall) ? momentOf(confirmed.wall) : null;
    // Milliseconds since 1970. The number still increases while the clock is set back.
    this.lastNumber = Math.max(this.lastNumber + 1, Date.now());
    const identity = (this.identity ??= await Identity.of(this.store));
    const body = await identity.report({
      Tenant: tenant, Id: id, Number: this.lastNumber, Trust: held?.version ?? 0, Sequence: sequence, Chain: chain,
      VerifiedAt: verifiedAt, MaxStaleness: Math.ceil(this.policy.maxStaleness), FailOpen: false,
      Refused: new Map(refused),
    });
    const answer = await this.post(`/v1/authorizers/${encodeURIComponent(id)}/heartbeat`, body, "status");
    if (!answer) return;
    this.sent = counts;
    this.reporting = "on";
    this.reported = sequence;
    this.turn = null;
    this.failures = 0;
    // Spreads out heartbeats that coincided after an advance.
    this.next = seconds() + this.after * (1 + Math.random() / 4);
    this.emit({ type: "reported", sequence, status: answer.word });
  }

  /** The member `name` of the response, or null after a failure was recorded. Throws `NoAnswer`. */
  private async post(path: string, body: object, name: string): Promise<{ word: string; lastNumber: number } | null> {
    const response = await this.transport.post(path, body, ANSWER_MAX);
    if (![200, 201].includes(response.status)) {
      const error = unexpected(response), isKnown = this.learnTime(response);
      const isUnregistered = this.id === null && response.status === 409;
      const message = isUnregistered ? `cannot register "${this.name}": another key has registered its name. Use a `
        + "separate name for each authorizer, or run `rescind authorizers remove` for the old one" : error.message;
      this.failed(message, isKnown ? response.status : null, error.retryAfter, isUnregistered);
      return null;
    }
    try {
      const members = json(response.body, ANSWER_MAX), word = members[name], last = members["last_number"];
      const after = secondsOf(members["report_after_seconds"]), spread = secondsOf(members["jitter_seconds"]);
      if (typeof word !== "string" || !/^[\x20-\x7e]{1,200}$/.test(word)) throw new NoAnswer(`the response has no ${name}`);
      this.after = Math.min(Math.max(after, 10), 86_400);
      this.spread = Math.min(spread, 3600);
      return { word, lastNumber: typeof last === "number" && last >= 0 && last < NUMBER_MAX ? Math.floor(last) : 0 };
    } catch (error) {
      if (error instanceof Refused) throw new NoAnswer("the response is not a JSON object");
      throw error;
    }
  }

  /**
   * Reads the time of the service from its response. Returns whether the offset was known before. A
   * service rejects a proof if the local clock is wrong. This time has no other use.
   */
  private learnTime({ headers }: Received): boolean {
    const there = Date.parse(headers.get("date") ?? "");
    if (Number.isNaN(there)) return true;
    const ahead = there - Date.now(), differs = Math.abs(ahead - this.ahead);
    this.ahead = ahead;
    return differs < CLOCK_DIFFERS;
  }

  private failed(message: string, status: number | null, retryAfter: number, unregistered = false): void {
    const isForgotten = this.id !== null && (status === 404 || status === 409);
    const isRefused = status !== null && status >= 400 && status < 500 && ![401, 403, 408, 409, 425, 429].includes(status);
    const isUnsupported = isRefused && !isForgotten;
    this.reporting = isUnsupported ? "unsupported" : "failing";
    const longest = isUnsupported ? ASK_AGAIN : Math.min(5 * 2 ** Math.min(this.failures, 10), FAILED_MAX);
    if (isForgotten) this.id = null;
    this.failures += 1;
    // Clients that were rejected together must not retry together.
    const pause = retryAfter + longest * (0.5 + Math.random() / 2);
    this.next = seconds() + pause;
    this.turn = null;
    this.emit({ type: "report_failed", message, pause, unregistered });
  }
}

const seconds = (): number => performance.now() / 1000;

function secondsOf(value: unknown): number {
  if (typeof value !== "number" || value < 0) throw new NoAnswer("the response has no valid report interval");
  return value;
}
