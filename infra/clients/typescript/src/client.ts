// The client library: `run` follows the feed, and `check` needs no request.

import { hex } from "./bytes.js";
import type { StateStore } from "./saved_state.js";
import { Follower, type ClientEvent } from "./follower.js";
import { Reporter, type Reporting } from "./reports.js";
import { printable, Transport } from "./transport.js";
import { pinned } from "./trust.js";
import { isFresh, leftOf, NO_VIEW, policyOf, type End, type Policy, type Verdict } from "./view.js";
import { areWarrantIds } from "./wire.js";

export interface ClientOptions {
  /** The address of the service. */
  readonly url: string;
  /** An API key with the scope `authorizer`. */
  readonly apiKey: string;
  /** The identifier of the tenant. */
  readonly tenant: string;
  /** The pin of the tenant's trust root, which `rescind trust show` prints. */
  readonly trustPin: string;
  /** Persists the accepted state across restarts. */
  readonly state: StateStore;
  readonly policy?: Partial<Policy>;
  /**
   * Called for each event. Its errors and rejections are ignored. By default, events outside normal
   * operation are written to the console.
   */
  readonly onEvent?: (event: ClientEvent) => void | Promise<void>;
  /** The name of the client in heartbeats, by default the name of its state store. */
  readonly name?: string;
  /** False disables heartbeats. Heartbeats change no verdict. */
  readonly report?: boolean;
}

/** The state of a client. Members that can be null are null before the first state. */
export interface Status {
  readonly sequence: number | null;
  readonly chain: string | null;
  readonly revoked: number | null;
  readonly signer: string | null;
  readonly trustVersion: number;
  readonly stale: boolean;
  readonly failures: number;
  readonly refusals: Readonly<Record<string, number>>;
  readonly reporting: Reporting;
}

/** The pause in seconds after an unexpected error. */
const PAUSE = 5;

/** Follows the revocations of one tenant within seconds. */
export class AuthorizerClient {
  private readonly follower: Follower;
  private readonly reporter: Reporter | null;
  private readonly transport: Transport;
  private readonly onEvent: NonNullable<ClientOptions["onEvent"]>;
  private readonly refusals: Record<string, number> = {};
  private failures = 0;
  private wasFresh = false;
  private loading: Promise<void> | null = null;
  private polling: Promise<void> | null = null;
  /** The end of the pause after the last exchange. */
  private pauseEnd: End = NO_VIEW;
  private isClosed = false;
  private isRun = false;
  private expiry: ReturnType<typeof setTimeout> | undefined;
  private readonly sleepers = new Set<() => void>();

  /** Throws a `TypeError` if an option is invalid. */
  constructor(options: ClientOptions) {
    const { url, apiKey, tenant, trustPin, state, report = true, name = state.name } = options;
    const policy = policyOf(options.policy ?? {}), emit = this.note.bind(this);
    this.onEvent = options.onEvent ?? warn;
    this.transport = new Transport(url, apiKey, policy.allowHttp);
    this.follower = new Follower(this.transport, state, pinned(tenant, trustPin), policy, emit);
    this.reporter = report && name !== undefined
      ? new Reporter(this.transport, policy, this.follower, this.refusals, emit, state, name) : null;
  }

  /** Follows the feed until `close`. Throws `StateError`, or the errors of the state store. */
  async run(): Promise<void> {
    this.isRun = true;
    await this.load();
    await Promise.all([this.repeat(() => this.exchange(true)), this.reporter && this.repeat(() => this.report())]);
  }

  /**
   * Makes one exchange with the service without a long poll, or awaits the current one. It makes
   * none during the pause after an exchange. Returns the seconds to pause. A failure of the service
   * is an event. Throws the errors of `run`.
   */
  async poll(): Promise<number> {
    await this.load();
    return this.exchange(false);
  }

  /** Sends a heartbeat if one is due. Returns the seconds until the next call is useful. */
  async report(): Promise<number> {
    return this.reporter ? this.reporter.step() : Infinity;
  }

  /**
   * The verdict on a chain of warrants, from the root to the leaf, without a request. A warrant
   * that is known to be revoked is `revoked`, however old the state is. Throws a `TypeError`
   * without an identifier, or if any is not a warrant identifier.
   */
  check(...ids: string[]): Verdict {
    const { view } = this.follower;
    if (!areWarrantIds(ids)) {
      throw new TypeError("a warrant identifier must be svc_wrt_ followed by 1 to 64 letters, digits, '_' or '-'");
    }
    if (ids.some((id) => view.revoked.revokes(id))) return "revoked";
    return isFresh(view) ? "clear" : "stale";
  }

  get status(): Status {
    const { view: { state, revoked }, view, belief } = this.follower;
    return {
      sequence: state && state.head.sequence,
      chain: state && hex(state.head.chain),
      revoked: state && revoked.size,
      signer: state && state.signer,
      trustVersion: belief.held?.version ?? 0,
      stale: !isFresh(view),
      failures: this.failures,
      refusals: { ...this.refusals },
      reporting: this.reporter?.reporting ?? "off",
    };
  }

  /** Ends `run` and the current requests. Checks return `stale` soon afterward. */
  close(): void {
    this.isClosed = true;
    clearTimeout(this.expiry);
    this.transport.end();
    for (const wake of this.sleepers) wake();
  }

  private load(): Promise<void> {
    this.loading ??= this.follower.load().then(() => this.show(), (error: unknown) => {
      // The next call reads the saved state again.
      this.loading = null;
      throw error;
    });
    return this.loading;
  }

  private async exchange(waits: boolean): Promise<number> {
    if (leftOf(this.pauseEnd) <= 0) await (this.polling ??= this.pollOnce(waits));
    return leftOf(this.pauseEnd) / 1000;
  }

  private async pollOnce(waits: boolean): Promise<void> {
    try {
      const pause = 1000 * (await this.follower.poll(waits));
      this.pauseEnd = { end: performance.now() + pause, wallEnd: Date.now() + pause };
    } finally {
      this.polling = null;
      this.show();
    }
  }

  private async repeat(step: () => Promise<number>): Promise<void> {
    while (!this.isClosed) {
      let pause = PAUSE;
      try {
        pause = await step();
      } catch (error) {
        // Catch every error, because every warrant would become stale if this loop ended.
        this.note({ type: "failed", message: printable(String(error)), pause });
      }
      if (!this.isClosed) await this.sleep(pause);
    }
  }

  private sleep(seconds: number): Promise<void> {
    return new Promise((resolve) => {
      const wake = (): void => {
        clearTimeout(timer);
        this.sleepers.delete(wake);
        resolve();
      };
      const timer = setTimeout(wake, Math.min(seconds * 1000, 2 ** 31 - 1));
      this.sleepers.add(wake);
    });
  }

  /**
   * Emits an event when the state becomes fresh or stale. In a running client, a timer detects
   * staleness.
   */
  private show(): void {
    const left = leftOf(this.follower.view), fresh = left > 0;
    clearTimeout(this.expiry);
    if (fresh && this.isRun && !this.isClosed) {
      this.expiry = setTimeout(() => this.show(), Math.min(Math.ceil(left), 2 ** 31 - 1));
    }
    if (fresh !== this.wasFresh) this.note({ type: fresh ? "recovered" : "became_stale" });
    this.wasFresh = fresh;
  }

  private note(event: ClientEvent): void {
    if (this.isClosed) return;
    if (event.type === "refused") this.refusals[event.reason] = (this.refusals[event.reason] ?? 0) + 1;
    if (event.type === "failed") this.failures += 1;
    // Errors of the callback change no verdict, and must not end the client or the process.
    new Promise((resolve) => resolve(this.onEvent(event))).catch(() => {});
  }
}

/** Writes an event to the console, except events of normal operation. */
function warn(event: ClientEvent): void {
  const isUsual = ["polled", "advanced"].includes(event.type) || (event.type === "reported" && event.status !== "equivocation");
  if (!isUsual) console.warn("rescind:", JSON.stringify(event));
}
