// The data of a check: the revoked warrants, and how long other warrants are clear. Also the
// policy.

import { RevokedIds, type State } from "./state.js";

/** The decision about a chain of warrants. Only `clear` permits a request. */
export type Verdict = "clear" | "revoked" | "stale";

/** How a client polls, and how old its state may be, in seconds. */
export interface Policy {
  /** How long a warrant can be clear after the last confirmation by the service. */
  readonly maxStaleness: number;
  /**
   * The longest pause between polls. The service can request a longer one, up to half of
   * `maxStaleness`.
   */
  readonly pollSeconds: number;
  /** The longest long poll, if the service supports long polls. */
  readonly waitSeconds: number;
  /** Permits a service without TLS on another machine. The network can then read the API key. */
  readonly allowHttp: boolean;
}

const USUAL: Policy = { maxStaleness: 30, pollSeconds: 1, waitSeconds: 25, allowHttp: false };

/** A policy with defaults for missing members. Throws a `TypeError` if a value is invalid. */
export function policyOf(settings: Partial<Policy>): Policy {
  const policy = { ...USUAL, ...settings };
  for (const name of ["maxStaleness", "pollSeconds", "waitSeconds"] as const) {
    const isGood = Number.isFinite(policy[name]) && (policy[name] > 0 || name === "waitSeconds");
    if (!isGood || policy[name] < 0) throw new TypeError(`${name} must be a number of seconds above 0`);
  }
  return policy;
}

/** The longest pause between polls, if the service requests `asked` seconds. */
export const pauseOf = ({ pollSeconds, maxStaleness }: Policy, asked: number): number =>
  Math.min(Math.max(pollSeconds, asked), maxStaleness / 2);

/** The wait of a poll in whole seconds, if the service grants `granted`. */
export const waitOf = ({ waitSeconds, maxStaleness }: Policy, granted: number): number =>
  Math.floor(Math.min(waitSeconds, granted, maxStaleness / 3));

/**
 * A time in milliseconds by a monotonic clock and by the wall clock, which continues during sleep.
 */
export interface Moment {
  readonly monotonic: number;
  readonly wall: number;
}

export const present = (): Moment => ({ monotonic: performance.now(), wall: Date.now() });

export const before = ({ monotonic, wall }: Moment, seconds: number): Moment => ({
  monotonic: monotonic - seconds * 1000,
  wall: wall - seconds * 1000,
});

/** A time of another process. A time in the future becomes the earliest possible time. */
export function ofWall(wall: number): Moment {
  const age = Date.now() - wall;
  return { monotonic: age >= 0 ? performance.now() - age : -Infinity, wall };
}

export const later = (one: Moment, other: Moment): Moment =>
  one.monotonic > other.monotonic || (one.monotonic === other.monotonic && one.wall > other.wall) ? one : other;

const NEVER: Moment = { monotonic: -Infinity, wall: -Infinity };

/**
 * A state, and the time until which unrevoked warrants are clear, by both clocks. `isTrusted` is
 * false if the signer of the head is no longer trusted. A view is immutable.
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

/**
 * The view of a confirmed state. Freshness ends sooner if the head or the trust document expires.
 */
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

/** A view that still revokes, but clears no warrant. */
export const distrusted = (view: View): View => ({ ...view, end: -Infinity, isTrusted: false });

/**
 * An end by two clocks. The earlier one counts, because one clock can stop and the other be set
 * back.
 */
export type End = Pick<View, "end" | "wallEnd">;

/** The milliseconds until an end, for example until unrevoked warrants are no longer clear. */
export const leftOf = ({ end, wallEnd }: End): number => Math.min(end - performance.now(), wallEnd - Date.now());

export const isFresh = (view: View): boolean => leftOf(view) > 0;
