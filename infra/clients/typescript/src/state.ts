// The state of a client of the feed, and its changes by answers (docs/spec/feed.md).
//
// Everything here is pure: the time and the bytes are arguments. A state never changes: `advance`
// returns another one or throws, so a client that keeps its state on an error loses nothing.

import { equal, type Bytes } from "./bytes.js";
import { changed, hasCutoff, type Cutoffs } from "./cutoffs.js";
import {
  check, FUTURE_MAX, isBreak, nextChain, readBase, readEntry, reading, refuse,
  type Answer, type Base, type Entry, type Head, type Position,
} from "./wire.js";

const LIFETIME_MAX = 7 * 86_400_000;
const FAST_FORWARD_MAX = 2 ** 32;
/** How many changes are kept beside the large set before they are folded into a copy of it. */
const FOLD_AT = 16_384;
/** How many bytes of entries a state keeps, to be restored with the base that it began with. */
const TRAIL_MAX = 2 * 2 ** 20;

/** The entries do not continue what is held: `advance` needs the payload of the list `base`. */
export class NeedsBase extends Error {
  constructor(readonly base: Base) {
    super(`the list of version ${base.version} is needed`);
  }
}

// Nobody outside the process can tell which texts meet in a table. It is drawn at first use, because a Worker
// draws no random number while it starts.
let seed: number | undefined;

function mixed(text: string): number {
  let sum = (seed ??= crypto.getRandomValues(new Int32Array(1))[0]!);
  for (let n = 0; n < text.length; n++) sum = Math.imul(sum ^ text.charCodeAt(n), 0x01000193);
  sum = Math.imul(sum ^ (sum >>> 15), 0x2c1b3c6d);
  return sum ^ (sum >>> 13);
}

/**
 * A set of texts that never changes, whose size is little more than theirs: a `Set` takes four times as much,
 * and more time. `data` has each text after its length, a byte each character. `places` is a hash table of
 * their offsets, beside which there is as much of the hash as has room, so a look mostly compares no text.
 */
export class CompactIds {
  readonly size: number;
  private data: Uint8Array;
  private readonly places: Int32Array;
  private readonly tags: number;
  /** What is too long, or not ASCII. */
  private readonly others = new Set<string>();

  constructor(texts: Iterable<string> = [], count = 0) {
    this.places = new Int32Array(2 ** Math.ceil(Math.log2(3 * count + 1)));
    this.data = new Uint8Array(count * 74 + 1);
    this.tags = -(2 ** Math.min(31, Math.ceil(Math.log2(this.data.length))));
    let end = 1, number = 0;
    for (const text of texts) {
      // `put` looks for a free place, and would look for ever.
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

/** The set of revoked warrants: `added` are not in `whole`, and `removed` are. It never changes. */
export class RevokedIds {
  constructor(
    readonly whole = new CompactIds(),
    readonly added: ReadonlySet<string> = new Set(),
    readonly removed: ReadonlySet<string> = new Set(),
    readonly cutoffs: Cutoffs = new Map(),
  ) {}

  /** Whether the set has an identifier, or a later cutoff of its subject. */
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
    const made = new RevokedIds(this.whole, added, removed, cutoffs);
    if (added.size + removed.size <= FOLD_AT) return made;
    return new RevokedIds(new CompactIds(made, made.size), undefined, undefined, cutoffs);
  }

  *[Symbol.iterator](): Generator<string> {
    for (const id of this.whole) if (!this.removed.has(id)) yield id;
    yield* this.added;
  }
}

/** A head that `signer`, a key in hex, signed; its own checks follow. */
export interface JudgedHead {
  readonly head: Head;
  readonly signer: string;
}

/**
 * A verified state. With the base that `origin.head` names, `restore` makes it again from `origin` and
 * `latest`; `latest` is null if its entries would be of more than `TRAIL_MAX` bytes.
 */
export interface State extends JudgedHead {
  readonly revoked: RevokedIds;
  readonly base: Base;
  readonly origin: Answer;
  readonly latest: Answer | null;
  readonly trailSize: number;
}

/** What an answer is checked against: `now` is in milliseconds since 1970, `floor` was saved before. */
export interface Terms {
  readonly tenant: string;
  readonly now: number;
  readonly floor: Position | null;
}

/**
 * The state after an answer whose head was judged, in the order of docs/spec/feed.md. `base` is the payload
 * of the list that `NeedsBase` named. Throws `Refused`, or `NeedsBase` if all other checks have passed.
 */
export function advance(
  state: State | null, answer: Answer, judged: JudgedHead, base: Bytes | null, terms: Terms,
): State {
  const { head } = judged;
  const passed = [terms.floor, state?.head ?? null].filter((each) => each !== null);
  checkTerms(head, terms);
  check(passed.every((each) => each.sequence <= head.sequence), "rollback");
  check(passed.every((each) => each.sequence !== head.sequence || equal(each.chain, head.chain)), "equivocation");
  if (state) {
    check(state.head.sequence !== head.sequence || head.issuedAt >= state.head.issuedAt, "replay");
    const entries = entriesAfter(state.head, answer, head, passed);
    if (entries && !isBroken(entries, head.base)) return continued(state, answer, judged, entries);
  }
  return begun(answer, judged, base, passed);
}

/**
 * The state that had these answers, from its base. Each is checked as of the time at which it was issued,
 * so the state may have expired. `floor` is the saved position: an older `latest` is refused.
 */
export function restore(
  origin: Answer, began: JudgedHead, latest: Answer, ended: JudgedHead, base: Bytes, tenant: string, floor: Position,
): State {
  const first = advance(null, origin, began, base, { tenant, now: began.head.issuedAt, floor: null });
  return advance(first, latest, ended, base, { tenant, now: ended.head.issuedAt, floor });
}

function checkTerms(head: Head, { tenant, now }: Terms): void {
  check(head.tenant === tenant, "tenant");
  const lifetime = head.expiresAt - head.issuedAt;
  check(lifetime > 0, "lifetime");
  check(lifetime <= LIFETIME_MAX, "lifetime");
  check(head.issuedAt - now <= FUTURE_MAX, "future");
  check(now < head.expiresAt, "expired");
}

/** The entries of an answer that are needed after a position; null if it does not reach back so far. */
function reach(start: Position, { entries }: Answer, head: Head): readonly Bytes[] | null {
  const count = head.sequence - start.sequence;
  return count > entries.length ? null : entries.slice(entries.length - count);
}

/** The chain is checked first, so that only entries are read that the head vouches for. */
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

/** Whether there is a break, which only a base can pass. Refuses one that the base does not cover. */
function isBroken(entries: readonly Entry[], base: Base): boolean {
  const breaks = entries.filter(isBreak);
  check(breaks.every((each) => each.sequence <= base.sequence), "break");
  return breaks.length > 0;
}

function continued(state: State, answer: Answer, judged: JudgedHead, entries: readonly Entry[]): State {
  const used = reach(state.head, answer, judged.head) ?? [];
  const trailSize = state.trailSize + used.reduce((size, each) => size + each.length, 0);
  const { latest, revoked } = state;
  const isKept = latest !== null && trailSize <= TRAIL_MAX;
  return {
    ...state,
    ...judged,
    revoked: entries.length ? revoked.after(entries) : revoked,
    latest: isKept ? { ...answer, entries: [...latest.entries, ...used] } : null,
    trailSize,
  };
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
