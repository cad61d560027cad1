// The state of a client, and its changes by answers (docs/spec/feed.md).
//
// All functions are pure: the time and the bytes are arguments. A state is immutable. `advance`
// returns a new state or throws, so a client keeps its state after an error.

import { equal, type Bytes } from "./bytes.js";
import { changed, hasCutoff, type Cutoffs } from "./cutoffs.js";
import {
  check, FUTURE_MAX, isBreak, nextChain, readBase, readEntry, reading, refuse,
  type Answer, type Base, type Entry, type Head, type Position,
} from "./wire.js";

const LIFETIME_MAX = 7 * 86_400_000;
const FAST_FORWARD_MAX = 2 ** 32;
/** The largest number of changes before they are merged into a new set. */
const FOLD_AT = 16_384;
/** The maximum size of the entries that a state keeps for a restore, in bytes. */
const TRAIL_MAX = 2 * 2 ** 20;

/** The entries do not continue the held state: `advance` needs the payload of the SRL `base`. */
export class NeedsBase extends Error {
  constructor(readonly base: Base) {
    super(`the list of version ${base.version} is needed`);
  }
}

// A secret seed prevents chosen collisions in the table. It is drawn at first use, because a Worker
// draws no random numbers during startup.
let seed: number | undefined;

function mixed(text: string): number {
  let sum = (seed ??= crypto.getRandomValues(new Int32Array(1))[0]!);
  for (let n = 0; n < text.length; n++) sum = Math.imul(sum ^ text.charCodeAt(n), 0x01000193);
  sum = Math.imul(sum ^ (sum >>> 15), 0x2c1b3c6d);
  return sum ^ (sum >>> 13);
}

/**
 * An immutable set of texts, with little memory overhead. A `Set` takes four times as much memory,
 * and more time. `data` contains each text after its length, with one byte per character. `places`
 * is a hash table of offsets. Spare bits of each place contain a part of the hash, so a lookup
 * mostly compares no text.
 */
export class CompactIds {
  readonly size: number;
  private data: Uint8Array;
  private readonly places: Int32Array;
  private readonly tags: number;
  /** Texts that are too long, or not ASCII. */
  private readonly others = new Set<string>();

  constructor(texts: Iterable<string> = [], count = 0) {
    this.places = new Int32Array(2 ** Math.ceil(Math.log2(3 * count + 1)));
    this.data = new Uint8Array(count * 74 + 1);
    this.tags = -(2 ** Math.min(31, Math.ceil(Math.log2(this.data.length))));
    let end = 1, number = 0;
    for (const text of texts) {
      // Without a free place, `put` would never end.
      if (++number > count) throw new RangeError(`there are more than ${count} texts`);
      end = this.put(text, end);
    }
    this.data = this.data.slice(0, end);
    this.size = count;
  }

  has(text: string): boolean {
    const { places, tags } = this, sum = mixed(text);
    for (let at = sum & (places.length - 1), place; (place = places[at]!) !== 0; at = (at + 1) & (places.length - 1)) {
      if (((place ^ sum) & tags) === 0 && this.isAt(place & ~tags, text)) return true;
    }
    return this.others.size > 0 && this.others.has(text);
  }

  *[Symbol.iterator](): Generator<string> {
    for (let at = 1, end; at < this.data.length; at = end) {
      end = at + 1 + this.data[at]!;
      yield String.fromCharCode(...this.data.subarray(at + 1, end));
    }
    yield* this.others;
  }

  private put(text: string, end: number): number {
    if (text.length > 72 || /[^\x00-\x7f]/.test(text)) {
      this.others.add(text);
      return end;
    }
    const sum = mixed(text);
    let at = sum & (this.places.length - 1);
    while (this.places[at] !== 0) at = (at + 1) & (this.places.length - 1);
    this.places[at] = (sum & this.tags) | end;
    this.data[end++] = text.length;
    for (let n = 0; n < text.length; n++) this.data[end++] = text.charCodeAt(n);
    return end;
  }

  private isAt(place: number, text: string): boolean {
    if (this.data[place] !== text.length) return false;
    for (let n = 0; n < text.length; n++) if (this.data[place + 1 + n] !== text.charCodeAt(n)) return false;
    return true;
  }
}

/**
 * The immutable set of revoked warrants. `whole` contains all of `removed`, and none of `added`.
 */
export class RevokedIds {
  constructor(
    readonly whole = new CompactIds(),
    readonly added: ReadonlySet<string> = new Set(),
    readonly removed: ReadonlySet<string> = new Set(),
    readonly cutoffs: Cutoffs = new Map(),
  ) {}

  /** Whether the set contains an identifier, or a later cutoff of its subject. */
  revokes(id: string): boolean {
    return this.has(id) || (this.cutoffs.size > 0 && hasCutoff(this.cutoffs, id));
  }

  has(id: string): boolean {
    return this.whole.has(id) ? !this.removed.has(id) : this.added.has(id);
  }

  get size(): number {
    return this.whole.size + this.added.size - this.removed.size;
  }

  /** The set after entries, in their order. */
  after(entries: readonly Entry[]): RevokedIds {
    const added = new Set(this.added), removed = new Set(this.removed);
    for (const entry of entries) {
      for (const id of entry.removed) {
        if (this.whole.has(id)) removed.add(id);
        added.delete(id);
      }
      for (const id of entry.revoked) {
        if (!this.whole.has(id)) added.add(id);
        removed.delete(id);
      }
    }
    const cutoffs = entries.reduce((before, entry) => changed(before, entry.revoked, entry.removed), this.cutoffs);
    const next = new RevokedIds(this.whole, added, removed, cutoffs);
    if (added.size + removed.size <= FOLD_AT) return next;
    return new RevokedIds(new CompactIds(next, next.size), undefined, undefined, cutoffs);
  }

  *[Symbol.iterator](): Generator<string> {
    for (const id of this.whole) if (!this.removed.has(id)) yield id;
    yield* this.added;
  }
}

/** A head signed by `signer`, a key in hex. The checks of the head follow. */
export interface JudgedHead {
  readonly head: Head;
  readonly signer: string;
}

/**
 * A verified state. `restore` rebuilds it from the base that `origin.head` references, `origin` and
 * `latest`. `latest` is null if its entries would exceed `TRAIL_MAX` bytes.
 */
export interface State extends JudgedHead {
  readonly revoked: RevokedIds;
  readonly base: Base;
  readonly origin: Answer;
  readonly latest: Answer | null;
  readonly trailSize: number;
}

/**
 * The conditions for an answer. `now` is in milliseconds since 1970. `savedPosition` was saved before
 * the last stop.
 */
export interface Terms {
  readonly tenant: string;
  readonly now: number;
  readonly savedPosition: Position | null;
}

/**
 * The state after an answer with a verified head. Checks follow the order of docs/spec/feed.md.
 * `base` is the payload of the SRL that `NeedsBase` named. Throws `Refused`, or `NeedsBase` if all
 * other checks have passed.
 */
export function advance(
  state: State | null, answer: Answer, judged: JudgedHead, base: Bytes | null, terms: Terms,
): State {
  const { head } = judged, { tenant, now } = terms;
  const passed = [terms.savedPosition, state?.head ?? null].filter((each) => each !== null);
  check(head.tenant === tenant, "tenant");
  const lifetime = head.expiresAt - head.issuedAt;
  check(lifetime > 0, "lifetime");
  check(lifetime <= LIFETIME_MAX, "lifetime");
  check(head.issuedAt - now <= FUTURE_MAX, "future");
  check(now < head.expiresAt, "expired");
  check(passed.every((each) => each.sequence <= head.sequence), "rollback");
  check(passed.every((each) => each.sequence !== head.sequence || equal(each.chain, head.chain)), "equivocation");
  if (state) {
    check(state.head.sequence !== head.sequence || head.issuedAt >= state.head.issuedAt, "replay");
    const entries = entriesAfter(state.head, answer, head, passed);
    if (entries && !isBroken(entries, head.base)) {
      const used = reach(state.head, answer, head) ?? [];
      const trailSize = state.trailSize + used.reduce((size, each) => size + each.length, 0);
      const isKept = state.latest !== null && trailSize <= TRAIL_MAX;
      return {
        ...state,
        ...judged,
        revoked: entries.length ? state.revoked.after(entries) : state.revoked,
        latest: isKept ? { ...answer, entries: [...state.latest.entries, ...used] } : null,
        trailSize,
      };
    }
  }
  return begun(answer, judged, base, passed);
}

/**
 * The state of these answers, from its base. Each answer is checked at its issue time, so the state
 * may have expired. A `latest` older than `savedPosition` is rejected.
 */
export function restore(
  origin: Answer, began: JudgedHead, latest: Answer, ended: JudgedHead, base: Bytes, tenant: string, savedPosition: Position,
): State {
  const first = advance(null, origin, began, base, { tenant, now: began.head.issuedAt, savedPosition: null });
  return advance(first, latest, ended, base, { tenant, now: ended.head.issuedAt, savedPosition });
}

/** The entries of an answer after a position, or null if the answer does not reach back to it. */
function reach(start: Position, { entries }: Answer, head: Head): readonly Bytes[] | null {
  const count = head.sequence - start.sequence;
  return count > entries.length ? null : entries.slice(entries.length - count);
}

/** The chain hash is verified first, so only authentic entries are parsed. */
function entriesAfter(start: Position, answer: Answer, head: Head, passed: readonly Position[]): Entry[] | null {
  const used = reach(start, answer, head);
  if (!used) return null;
  let { sequence, chain } = start;
  const checkPassed = (): void =>
    check(passed.every((each) => each.sequence !== sequence || equal(each.chain, chain)), "chain");
  checkPassed();
  for (const data of used) {
    chain = nextChain(chain, data);
    sequence += 1;
    checkPassed();
  }
  check(equal(chain, head.chain), "chain");
  return used.map((data, number) => {
    const entry = reading(() => readEntry(data));
    check(entry.sequence === start.sequence + 1 + number, "gap");
    return entry;
  });
}

/**
 * Whether there is a discontinuity, which needs a base. Rejects it if the base does not cover it.
 */
function isBroken(entries: readonly Entry[], base: Base): boolean {
  const breaks = entries.filter(isBreak);
  check(breaks.every((each) => each.sequence <= base.sequence), "break");
  return breaks.length > 0;
}

function begun(answer: Answer, judged: JudgedHead, data: Bytes | null, passed: readonly Position[]): State {
  const { head } = judged, { base } = head;
  const entries = entriesAfter(base, answer, head, passed) ?? refuse("gap");
  isBroken(entries, base);
  const highest = Math.max(...passed.map((each) => each.sequence));
  check(!passed.length || head.sequence - highest <= FAST_FORWARD_MAX, "fast_forward");
  if (data === null) throw new NeedsBase(base);
  const ids = readBase(data, base), cutoffs = changed(new Map(), ids);
  const revoked = new RevokedIds(new CompactIds(ids, base.count), undefined, undefined, cutoffs).after(entries);
  const origin = { ...answer, entries: reach(base, answer, head) ?? [] };
  return { ...judged, revoked, base, origin, latest: { ...answer, entries: [] }, trailSize: 0 };
}
