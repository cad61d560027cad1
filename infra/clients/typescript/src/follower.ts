// Follows the feed, with one exchange at a time.

import type { Bytes } from "./bytes.js";
import { load, loadBase, save, saveBase, type StateStore, type Saved } from "./saved_state.js";
import { advance, NeedsBase, restore, type State } from "./state.js";
import { ageOf, NoAnswer, PATIENCE, printable, TooLarge, Transport, unexpected, type Received } from "./transport.js";
import {
  followed, isOfDocuments, judged, listSigners, positionAfter, readDocuments, resumeBelief, TRUST_MAX, verified, type Belief,
} from "./trust.js";
import {
  before, distrusted, isFresh, later, NO_VIEW, ofWall, pauseOf, present, viewOf, waitOf,
  type Moment, type Policy, type View,
} from "./view.js";
import { ANSWER_MAX, baseSizeMax, readAnswer, Refused, type Answer, type Position, type Reason } from "./wire.js";

/** Reports what happens in a client, for metrics and logs. Times are in seconds. */
export type ClientEvent =
  | { readonly type: "polled"; readonly seconds: number; readonly changed: boolean }
  | { readonly type: "advanced"; readonly before: number | null; readonly after: number; readonly count: number }
  | { readonly type: "refused"; readonly reason: Reason }
  | { readonly type: "failed"; readonly message: string; readonly pause: number }
  | { readonly type: "became_stale" }
  | { readonly type: "recovered" }
  | { readonly type: "signer_changed"; readonly key: string }
  | { readonly type: "trust_changed"; readonly version: number; readonly pin: string }
  | { readonly type: "reported"; readonly sequence: number; readonly status: string }
  | { readonly type: "report_failed"; readonly message: string; readonly pause: number; readonly unregistered: boolean };

export type Emit = (event: ClientEvent) => void;

const FEED = "/v1/revocations/feed";
/** The largest base that is fetched, regardless of the head. */
const BASE_MAX = 2 ** 30;
const BACKOFF_MAX = 5;
const AFTER_WAIT = 0.05;
/**
 * The lifetime of a connection in milliseconds. Renewal follows changes of DNS and load balancers.
 */
const CONNECTION_AGE_MAX = 600_000;

/** A random pause of at most `longest` seconds, which spreads out clients. */
export const jittered = (longest: number): number => longest * (0.5 + Math.random() / 2);

/** Maintains the state of one tenant's feed. */
export class Follower {
  view: View = NO_VIEW;
  private last: Answer | null = null;
  private position: Position | null = null;
  /** The signer of the newest head, in hex, if it is still trusted. */
  private signer: string | null = null;
  /** The base file of the saved state, and the file of the newest base. */
  private savedBase: string | null = null;
  private baseFile: string | null = null;
  private etag: string | null = null;
  private hasGap = false;
  private failures = 0;
  /** Whether the last answer had news at once. The next poll is then paced. */
  private hasHurried = false;
  private connected = present().monotonic;

  constructor(
    private readonly transport: Transport,
    private readonly store: StateStore,
    public belief: Belief,
    private readonly policy: Policy,
    private readonly emit: Emit,
  ) {}

  /** Restores the saved state. Throws `StateError`, or the errors of the state store. */
  async load(): Promise<void> {
    const saved = await load(this.store, this.belief.tenant);
    if (!saved) return;
    this.belief = resumeBelief(this.belief, saved.belief);
    this.position = positionAfter(this.belief, saved.signer, saved.position);
    this.signer = saved.signer;
    this.baseFile = this.savedBase = saved.restorable && saved.restorable.base;
    const { restorable } = saved, base = restorable && (await loadBase(this.store, restorable));
    if (!restorable || !base || !this.position) return;
    const { origin, latest } = restorable;
    try {
      const began = await verified(this.belief, origin), ended = await verified(this.belief, latest);
      const state = restore(origin, began, latest, ended, base, this.belief.tenant, this.position);
      this.confirm(state, ofWall(saved.answeredAt));
    } catch (error) {
      // Other keys are trusted than when the state was saved. The position still counts.
      if (!(error instanceof Refused)) throw error;
    }
  }

  /**
   * Makes one exchange with the service, which may delay its response if `waits`. Returns the
   * seconds to pause. A failure does not change the state.
   */
  async poll(waits: boolean): Promise<number> {
    try {
      const pause = await this.exchange(waits);
      this.failures = 0;
      return pause;
    } catch (error) {
      if (error instanceof Refused) return this.refused(error.reason);
      if (error instanceof TooLarge) return this.refused("too_large");
      if (error instanceof NoAnswer) return this.failed(error.message, error.retryAfter);
      return this.failed(printable(`cannot save the state: ${String(error)}`));
    }
  }

  private async exchange(waits: boolean): Promise<number> {
    const asked = present(), wait = waits ? this.wait() : 0, held = this.view.state?.head.sequence;
    const response = await this.ask(wait, asked.monotonic);
    const changed = response.status === 200, age = ageOf(response), trueAt = before(asked, age);
    if (changed) {
      const answer = readAnswer(response.body);
      await this.take(await this.next(answer), trueAt);
      this.etag = response.headers.get("etag");
      this.last = answer;
      this.hasGap = false;
    } else if (Date.now() >= this.end) {
      // Without the tag, the next answer contains the head, which is then verified again.
      throw new Refused("trust_expired");
    } else if (this.view.state) {
      this.confirm(this.view.state, later(trueAt, this.view.confirmed));
    }
    const seconds = (present().monotonic - asked.monotonic) / 1000;
    this.emit({ type: "polled", seconds, changed });
    if (age > this.policy.maxStaleness) throw new NoAnswer(`the response is ${age} seconds old`);
    return this.pause(seconds, wait, waits && this.view.state?.head.sequence !== held);
  }

  /** The response of the service: 200, or 304 if there is no change. */
  private async ask(wait: number, now: number): Promise<Received> {
    const held = this.held(), query = new URLSearchParams();
    // After a gap, the answer must start at the base.
    if (held && !this.hasGap) query.set("after", String(held.head.sequence));
    if (held && wait) query.set("wait", String(wait));
    const etag = held ? this.etag : null, path = query.size ? `${FEED}?${query}` : FEED;
    // A new connection may lead to another server.
    const isLast = this.failures > 0 || now - this.connected > CONNECTION_AGE_MAX;
    if (isLast) this.connected = now;
    // An answer must arrive before the state is stale.
    const patience = wait + Math.min(PATIENCE, this.policy.maxStaleness / 2);
    const response = await this.transport.get(path, ANSWER_MAX, etag, patience, isLast);
    if (response.status !== 200 && !(response.status === 304 && etag)) throw unexpected(response);
    return response;
  }

  /**
   * The state to continue, or null for a base load. A base load is needed if the signer is no
   * longer trusted, or if the state could not be restored later.
   */
  private held(): State | null {
    const { state, isTrusted } = this.view;
    return isTrusted && state?.latest ? state : null;
  }

  /** The expiry of the held document, in the past without a document. */
  private get end(): number {
    return this.belief.held?.expiresAt ?? -Infinity;
  }

  private async next(answer: Answer): Promise<State> {
    try {
      return await this.advanced(answer);
    } catch (error) {
      if (!isOfDocuments(error)) throw error;
    }
    try {
      await this.readDocuments();
    } catch (error) {
      // Without any document, report that the service serves none. Otherwise report the rejection.
      if (!(error instanceof NoAnswer) || !this.belief.held) throw error;
    }
    return this.advanced(answer);
  }

  private async advanced(answer: Answer): Promise<State> {
    const head = await judged(this.belief, answer, Date.now());
    const attempt = (base: Bytes | null): State =>
      advance(this.held(), answer, head, base, { tenant: this.belief.tenant, now: Date.now(), savedPosition: this.position });
    try {
      return attempt(null);
    } catch (error) {
      if (!(error instanceof NeedsBase)) throw error;
      // The verified head bounds the size of the base.
      const limit = Math.min(baseSizeMax(error.base), BASE_MAX);
      const base = await this.transport.getFar(`${FEED}/base/${error.base.version}`, limit);
      const state = attempt(base);
      this.baseFile = await saveBase(this.store, base, this.savedBase);
      return state;
    }
  }

  /** Saves a state, and makes it current. */
  private async take(state: State, trueAt: Moment): Promise<void> {
    const { state: past } = this.view, known = this.signer;
    // The state includes all changes confirmed earlier, even if this answer is older.
    const confirmed = this.view.isTrusted ? later(trueAt, this.view.confirmed) : trueAt;
    const isNew = !past || past.head.sequence !== state.head.sequence || past.head.issuedAt !== state.head.issuedAt;
    if (isNew || known !== state.signer) await this.save(this.saved(state, this.belief, confirmed));
    this.position = state.head;
    this.signer = state.signer;
    this.confirm(state, confirmed);
    if (known !== null && known !== state.signer) this.emit({ type: "signer_changed", key: state.signer });
    if (past?.head.sequence !== state.head.sequence) {
      const { sequence: after } = state.head;
      this.emit({ type: "advanced", before: past?.head.sequence ?? null, after, count: state.revoked.size });
    }
  }

  private confirm(state: State, confirmed: Moment): void {
    this.view = viewOf(state, confirmed, this.policy, this.end);
  }

  /** Reads newer trust documents. Saves the newest, and makes it current (TRUST-14). */
  private async readDocuments(): Promise<void> {
    const response = await this.transport.get(`/v1/trust?after=${this.belief.held?.version ?? 0}`, TRUST_MAX);
    if (response.status !== 200) throw unexpected(response);
    const belief = await followed(this.belief, readDocuments(response.body), Date.now());
    if (belief === this.belief) return;
    const signer = this.signer !== null && listSigners(belief).includes(this.signer) ? this.signer : null;
    const position = positionAfter(belief, signer, this.position);
    const { state, confirmed, isTrusted } = this.view, kept = signer !== null && isTrusted ? state : null;
    if (kept) await this.save(this.saved(kept, belief, confirmed));
    else if (position) await this.save({ ...nothing(belief, position), signer });
    this.belief = belief;
    this.position = position;
    this.signer = signer;
    if (kept) {
      this.confirm(kept, confirmed);
    } else if (state) {
      // A thief may have signed the state. Only a head by another key can make it fresh again.
      this.view = distrusted(this.view);
      this.etag = null;
    }
    if (belief.held) this.emit({ type: "trust_changed", version: belief.held.version, pin: belief.pin });
  }

  private async save(saved: Saved): Promise<void> {
    await save(this.store, saved);
    this.savedBase = saved.restorable && saved.restorable.base;
  }

  private saved(state: State, belief: Belief, confirmed: Moment): Saved {
    const { base: { sha256 }, origin, latest, signer } = state, base = this.baseFile;
    return {
      ...nothing(belief, state.head),
      signer,
      answeredAt: Math.max(0, Math.floor(confirmed.wall)),
      restorable: latest && base !== null ? { base, sha256, origin, latest } : null,
    };
  }

  /**
   * The wait of the next poll. After a failure or while stale, it is zero, because an immediate
   * answer ends that condition sooner.
   */
  private wait(): number {
    return this.failures || !isFresh(this.view) ? 0 : waitOf(this.policy, this.last?.maxWaitSeconds ?? 0);
  }

  /** The pause after a poll with this duration (POLL-1). */
  private pause(seconds: number, wait: number, hasEntries: boolean): number {
    const longest = pauseOf(this.policy, this.last?.pollSeconds ?? 0), isSoon = seconds < longest / 2;
    const isHurried = hasEntries && this.wait() > 0 && !(isSoon && this.hasHurried);
    this.hasHurried = hasEntries && isSoon;
    const paced = wait > 0 && seconds > wait / 2 ? Math.max(AFTER_WAIT, this.policy.pollSeconds - seconds) : longest;
    return jittered(isHurried ? AFTER_WAIT : paced);
  }

  private refused(reason: Reason): number {
    this.etag = null;
    this.hasGap = reason === "gap";
    this.emit({ type: "refused", reason });
    return this.backoff();
  }

  private failed(message: string, retryAfter = 0): number {
    // Retry-After is not signed, so it has the same bound as poll_seconds.
    const pause = Math.max(this.backoff(), jittered(pauseOf(this.policy, retryAfter)));
    // The tag may be the cause, for example because it is too long.
    if (this.failures > 1) this.etag = null;
    this.emit({ type: "failed", message, pause });
    return pause;
  }

  private backoff(): number {
    this.failures += 1;
    const { pollSeconds, maxStaleness } = this.policy, doubled = pollSeconds * 2 ** Math.min(this.failures, 10);
    return jittered(pauseOf(this.policy, Math.min(doubled, BACKOFF_MAX, maxStaleness / 4)));
  }
}

/** The saved form of a position without a state. */
const nothing = ({ tenant, pin, held }: Belief, position: Position): Saved => ({
  tenant, position, signer: null, answeredAt: 0, restorable: null, belief: { pin, held },
});
