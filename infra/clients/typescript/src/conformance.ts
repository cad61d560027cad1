// Runs the conformance suite against this client (docs/spec/feed.md). The suite supplies the time,
// the answers and the bases. Requests and answers are JSON objects.

import { hex, utf8 } from "./bytes.js";
import { AuthorizerClient } from "./client.js";
import { MemoryStateStore, type StateStore } from "./saved_state.js";
import { advance, NeedsBase, type State } from "./state.js";
import {
  followed, judged, listSigners, pinned, positionAfter, readDocuments, readSigningKeys, type Belief,
} from "./trust.js";
import { tokenId, type TokenKind } from "./tokens.js";
import { wholeSeconds } from "./transport.js";
import { areWarrantIds, base64, check, readAnswer, refuse, Refused, type Position } from "./wire.js";

interface SavedPosition {
  sequence: number;
  chain: string;
  signer?: string | null;
}

interface Requests {
  init: { tenant: string; trust_root: string; floor: SavedPosition | null };
  trust: { now: string; response: string };
  signing_keys: { blob: string };
  restart: Record<string, never>;
  poll: { now: string; answer: string; base: string | null };
  confirm: { now: string; age: string; max_staleness: number };
  check: { now: string; ids: string[] };
  identify: { kind: string; issuer: string; value: string; issued_before?: number };
  connect: {
    url: string; api_key: string; tenant: string; trust_root: string; floor: string; max_staleness: number;
  };
  verdicts: string[];
}

type Commands = { [Name in keyof Requests]: (request: Requests[Name]) => object | Promise<object> };

const SECOND = 1000;
const READY_MAX = 10 * SECOND;

/** A client without a network. After `connect`, `live` is a client with a network. */
export class Session {
  private live: AuthorizerClient | null = null;
  private state: State | null = null;
  private belief: Belief = { tenant: "", pin: "", held: null };
  private savedPosition: Position | null = null;
  /** The signer of the newest head, and whether the document still names that key. */
  private signer: string | null = null;
  private isTrusted = false;
  private end = Infinity;
  private hasEnd = false;

  /** `storeIn` returns the store in a folder. */
  constructor(private readonly storeIn: (folder: string) => StateStore = () => new MemoryStateStore()) {}

  /** The answer to a request. The name of its only member selects the command. */
  async answer(request: object): Promise<object> {
    const [[name, argument] = ["", {}]] = Object.entries(request);
    try {
      return await this.commands[name as keyof Requests](argument);
    } catch (error) {
      if (error instanceof Refused) return { refused: error.reason };
      if (error instanceof NeedsBase) return { needs_base: error.base.version };
      throw error;
    }
  }

  private readonly commands: Commands = {
    init: ({ tenant, trust_root: pin, floor }) => {
      this.belief = pinned(tenant, pin);
      this.savedPosition = floor && { sequence: floor.sequence, chain: base64(floor.chain) };
      this.signer = floor?.signer ? hex(base64(floor.signer)) : null;
      this.forget();
      return { ready: true };
    },
    trust: async ({ now, response }) => {
      this.belief = await followed(this.belief, readDocuments(utf8(response)), Date.parse(now));
      this.savedPosition = positionAfter(this.belief, this.signer, this.savedPosition);
      if (this.signer === null || !listSigners(this.belief).includes(this.signer)) {
        this.signer = null;
        this.isTrusted = false;
      }
      return { version: this.belief.held?.version ?? 0 };
    },
    signing_keys: async ({ blob }) => {
      const reference = this.state?.head.keys;
      if (!reference) throw new Error("no head names signing keys");
      return { keys: (await readSigningKeys(base64(blob), reference, this.belief)).length };
    },
    restart: () => {
      if (this.state && this.isTrusted) this.savedPosition = this.state.head;
      this.forget();
      return { ready: true };
    },
    poll: async ({ now, answer, base }) => {
      const parsed = readAnswer(utf8(answer)), at = Date.parse(now);
      const terms = { tenant: this.belief.tenant, now: at, savedPosition: this.savedPosition };
      const state = this.isTrusted ? this.state : null;
      const data = base === null ? null : base64(base);
      this.state = advance(state, parsed, await judged(this.belief, parsed, at), data, terms);
      this.signer = this.state.signer;
      this.isTrusted = true;
      return { sequence: this.state.head.sequence };
    },
    confirm: ({ now, age, max_staleness: seconds }) => {
      const end = Date.parse(now) + (seconds - (wholeSeconds(age) ?? refuse("malformed"))) * SECOND;
      this.end = this.hasEnd ? Math.max(this.end, end) : end;
      this.hasEnd = true;
      return { ready: true };
    },
    check: ({ now, ids }) => {
      const { state, belief } = this;
      check(areWarrantIds(ids), "malformed");
      if (state && ids.some((id) => state.revoked.revokes(id))) return { verdict: "revoked" };
      const last = Math.min(this.end, state?.head.expiresAt ?? -Infinity, belief.held?.expiresAt ?? -Infinity);
      return { verdict: this.isTrusted && Date.parse(now) < last ? "clear" : "stale" };
    },
    identify: ({ kind, issuer, value, issued_before: before }) => {
      try {
        return { warrant_id: tokenId(kind as TokenKind, issuer, value, before) };
      } catch {
        return { refused: "malformed" };
      }
    },
    // Starts a client that follows a service, and waits for a fresh state. Its events go to
    // standard error.
    connect: async ({ url, api_key: apiKey, tenant, trust_root: trustPin, floor, max_staleness: maxStaleness }) => {
      try {
        const state = this.storeIn(floor);
        await new Promise<void>((resolve) => {
          this.live = new AuthorizerClient({
            url, apiKey, tenant, trustPin, state, policy: { maxStaleness }, report: false,
            onEvent: (event) => {
              console.error(JSON.stringify(event));
              if (event.type === "recovered") resolve();
            },
          });
          this.live.run().catch((error: unknown) => console.error(String(error)));
          setTimeout(resolve, READY_MAX);
        });
      } catch (error) {
        return { refused: (error as Error).message };
      }
      return { ready: true };
    },
    verdicts: (ids) => {
      const { failures = 0, refusals = {} } = this.live?.status ?? {};
      const refused = Object.values(refusals).reduce((sum, each) => sum + each, 0);
      return { verdicts: ids.map((id) => this.live?.check(id)), failures: failures + refused };
    },
  };

  private forget(): void {
    this.state = null;
    this.end = Infinity;
    this.hasEnd = false;
  }
}
