// The data of a check: the revoked warrants, and until when the others are clear. Also the policy.

import { RevokedIds, type State } from "./state.js";

/** The answer about a chain of warrants. Only `clear` lets a request through. */
export type Verdict = "clear" | "revoked" | "stale";

/** How a client polls, and how old its state may be; seconds. */
export interface Policy {
  /** How long after the last confirmation of the service a warrant can be clear. */
  readonly maxStaleness: number;
  /** The longest pause between polls, unless the service asks for a longer one; at most half of `maxStaleness`. */
  readonly pollSeconds: number;
  /** The longest long poll, for services that grant them. */
  readonly waitSeconds: number;
  /** Permits a service without TLS on another machine. Everybody on the way then reads the API key. */
  readonly allowHttp: boolean;
}

const USUAL: Policy = { maxStaleness: 30, pollSeconds: 1, waitSeconds: 25, allowHttp: false };

/** A policy in which what is not given is usual. Throws a `TypeError` if a value has no meaning. */
export function policyOf(given: Partial<Policy>): Policy {
  const policy = { ...USUAL, ...given };
  for (const name of ["maxStaleness", "pollSeconds", "waitSeconds"] as const) {
    const isGood = Number.isFinite(policy[name]) && (policy[name] > 0 || name === "waitSeconds");
    if (!isGood || policy[name] < 0) throw new TypeError(`${name} must be a number of seconds above 0`);
  }
  return policy;
}

/** The longest pause between polls, if the service asks for `asked` seconds. */
export const pauseOf = ({ pollSeconds, maxStaleness }: Policy, asked: number): number =>
  Math.min(Math.max(pollSeconds, asked), maxStaleness / 2);

/** For how many whole seconds to wait in a poll, if the service grants `granted`. */
export const waitOf = ({ waitSeconds, maxStaleness }: Policy, granted: number): number =>
  Math.floor(Math.min(waitSeconds, granted, maxStaleness / 3));

/** A time in milliseconds by two clocks: one that nobody sets, and one that goes on while a machine sleeps. */
export interface Moment {
  readonly monotonic: number;
  readonly wall: number;
}

export const present = (): Moment => ({ monotonic: performance.now(), wall: Date.now() });

export const before = ({ monotonic, wall }: Moment, seconds: number): Moment => ({
  monotonic: monotonic - seconds * 1000,
  wall: wall - seconds * 1000,
});

/** The time of another process; for one in the future, a time that never was. */
export function ofWall(wall: number): Moment {
  const age = Date.now() - wall;
  return { monotonic: age >= 0 ? performance.now() - age : -Infinity, wall };
}

export const later = (one: Moment, other: Moment): Moment =>
  one.monotonic > other.monotonic || (one.monotonic === other.monotonic && one.wall > other.wall) ? one : other;

const NEVER: Moment = { monotonic: -Infinity, wall: -Infinity };

/**
 * A state, and until when the warrants that it does not revoke are clear, by both clocks. `isTrusted` is
 * false if the signer of the head does not count any more. A view never changes.
 */
export interface View {
  readonly state: State | null;
  readonly revoked: RevokedIds;
  readonly confirmed: Moment;
  readonly end: number;
  readonly wallEnd: number;
  readonly isTrusted: boolean;
}

export const NO_VIEW: View = {
  state: null, revoked: new RevokedIds(), confirmed: NEVER, end: -Infinity, wallEnd: -Infinity, isTrusted: false,
};

/** The view of a state that was confirmed. It ends sooner if the head expires, or at the end of the document. */
export function viewOf(state: State, confirmed: Moment, { maxStaleness }: Policy, end: number): View {
  return {
    state,
    revoked: state.revoked,
    confirmed,
    end: confirmed.monotonic + maxStaleness * 1000,
    wallEnd: Math.min(confirmed.wall + maxStaleness * 1000, state.head.expiresAt, end),
    isTrusted: true,
  };
}

/** A view that still revokes, and clears nothing. */
export const distrusted = (view: View): View => ({ ...view, end: -Infinity, isTrusted: false });

/** An end by two clocks. The first to pass it counts: one may stop in a frozen host, the other may be set back. */
export type End = Pick<View, "end" | "wallEnd">;

/** For how many milliseconds from now the warrants that are not revoked are clear, or another end has not passed. */
export const leftOf = ({ end, wallEnd }: End): number => Math.min(end - performance.now(), wallEnd - Date.now());

export const isFresh = (view: View): boolean => leftOf(view) > 0;
