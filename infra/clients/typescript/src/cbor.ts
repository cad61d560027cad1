// Deterministic CBOR (RFC 8949, 4.2.1) with text keys, without tags and floating-point numbers.

import { compare, concat, textOf, utf8, type Bytes } from "./bytes.js";

export type Members = Map<string, Value>;
/** A number above 2^53 becomes a bigint, which no format allows. */
export type Value = null | boolean | number | bigint | string | Uint8Array | Value[] | Members;

/** Bytes that violate the format. */
export class Malformed extends Error {}

/** The largest number that the formats use. */
export const NUMBER_MAX = 2 ** 53;

/** The maximum nesting of maps and lists. */
const DEPTH_MAX = 16;

const SIMPLE = { 0xf4: false, 0xf5: true, 0xf6: null };

function malformed(): never {
  throw new Malformed("not CBOR as the formats have it");
}

class Reader {
  at = 0;

  constructor(
    private readonly data: Uint8Array,
    private readonly isStrict: boolean,
  ) {}

  item(depth: number): Value {
    if (depth > DEPTH_MAX) return malformed();
    const [first = 0] = this.take(1);
    const kind = first >> 5;
    if (first in SIMPLE) return SIMPLE[first as keyof typeof SIMPLE];
    const size = this.argument(first & 31);
    if (kind === 0) return size;
    if (kind === 1) return typeof size === "number" ? -1 - size : -1n - size;
    if (typeof size === "bigint") return malformed();
    if (kind === 2) return this.take(size);
    if (kind === 3) return this.text(size);
    if (kind > 5) return malformed();
    return kind === 4 ? this.list(size, depth + 1) : this.map(size, depth + 1);
  }

  private take(size: number): Uint8Array {
    const end = this.at + size;
    if (end > this.data.length) return malformed();
    const taken = this.data.subarray(this.at, end);
    this.at = end;
    return taken;
  }

  private argument(short: number): number | bigint {
    if (short < 24) return short;
    if (short > 27) return malformed();
    const size = 1 << (short - 24);
    let value = 0n;
    for (const byte of this.take(size)) value = (value << 8n) | BigInt(byte);
    const least = size === 1 ? 24n : 1n << BigInt(4 * size);
    if (this.isStrict && value < least) return malformed();
    return value > BigInt(NUMBER_MAX) ? value : Number(value);
  }

  private text(size: number): string {
    const bytes = this.take(size);
    try {
      return textOf(bytes);
    } catch {
      return malformed();
    }
  }

  private list(size: number, depth: number): Value[] {
    const items: Value[] = [];
    while (items.length < size) items.push(this.item(depth));
    return items;
  }

  private map(size: number, depth: number): Members {
    const members: Members = new Map();
    let last: Uint8Array | null = null;
    for (let left = size; left > 0; left -= 1) {
      const start = this.at;
      const key = this.item(depth);
      const bytes = this.data.subarray(start, this.at);
      if (typeof key !== "string" || members.has(key)) return malformed();
      if (this.isStrict && last && compare(last, bytes) >= 0) return malformed();
      members.set(key, this.item(depth));
      last = bytes;
    }
    return members;
  }
}

/**
 * The map in `data`. Throws `Malformed`. If it is not strict, members may be unordered and headers
 * longer than needed. Duplicate members are always rejected.
 */
export function decode(data: Uint8Array, isStrict = true): Members {
  const reader = new Reader(data, isStrict);
  const value = reader.item(0);
  return reader.at === data.length && value instanceof Map ? value : malformed();
}

function header(kind: number, size: number): Bytes {
  if (size < 24) return Uint8Array.of((kind << 5) | size);
  const power = [8, 16, 32, 64].findIndex((bits) => size < 2 ** bits);
  const data = new Uint8Array(1 + (1 << power));
  data[0] = (kind << 5) | (24 + power);
  let left = BigInt(size);
  for (let at = data.length - 1; at > 0; at -= 1, left >>= 8n) data[at] = Number(left & 255n);
  return data;
}

/** The deterministic CBOR of a value. */
export function encode(value: Value): Bytes {
  if (value === null) return Uint8Array.of(0xf6);
  if (typeof value === "boolean") return Uint8Array.of(value ? 0xf5 : 0xf4);
  if (typeof value === "number") return header(0, value);
  if (typeof value === "bigint") throw new RangeError(`${value} is above 2^53`);
  if (typeof value === "string") {
    const data = utf8(value);
    return concat(header(3, data.length), data);
  }
  if (value instanceof Uint8Array) return concat(header(2, value.length), value);
  if (Array.isArray(value)) return concat(header(4, value.length), ...value.map(encode));
  const members = [...value].map(([name, each]) => [encode(name), encode(each)] as const);
  members.sort(([one], [other]) => compare(one, other));
  return concat(header(5, members.length), ...members.flat());
}

function member<T>(members: Members, name: string, is: (value: Value) => value is Value & T): T {
  const value = members.get(name);
  if (value === undefined || !is(value)) throw new Malformed(`${name} is missing, or of another type`);
  return value;
}

const isMap = (value: Value): value is Members => value instanceof Map;
const isText = (value: Value): value is string => typeof value === "string";
const isBytes = (value: Value): value is Uint8Array => value instanceof Uint8Array;
const isNumber = (value: Value): value is number =>
  typeof value === "number" && value >= 0;

/** A member of exactly one type. Each function throws `Malformed`. */
export const table = (members: Members, name: string): Members => member(members, name, isMap);
export const text = (members: Members, name: string): string => member(members, name, isText);
export const number = (members: Members, name: string): number => member(members, name, isNumber);
export const bytes = (members: Members, name: string, size?: number): Bytes => {
  const found = member(members, name, isBytes);
  need(size === undefined || found.length === size, `${name} must have ${size} bytes`);
  return new Uint8Array(found);
};
export const digest = (members: Members, name: string): Bytes => bytes(members, name, 32);

function items<T>(members: Members, name: string, is: (value: Value) => value is Value & T): T[] {
  return member(members, name, (value): value is Value & T[] => Array.isArray(value) && value.every(is));
}

/** A list with elements of exactly one type. */
export const tables = (members: Members, name: string): Members[] => items(members, name, isMap);
export const texts = (members: Members, name: string): string[] => items(members, name, isText);
export const blobs = (members: Members, name: string): Uint8Array[] => items(members, name, isBytes);

/** The result of `read` for a member, or null if the member is absent. */
export function optional<T>(
  members: Members, name: string, read: (members: Members, name: string) => T,
): T | null {
  return members.has(name) ? read(members, name) : null;
}

export function need(holds: boolean, message: string): void {
  if (!holds) throw new Malformed(message);
}

/** Checks that values are in strictly ascending byte order. */
export function rising(values: readonly (string | Uint8Array)[], name: string): void {
  let last: Uint8Array | null = null;
  for (const value of values) {
    const each = typeof value === "string" ? utf8(value) : value;
    need(last === null || compare(last, each) < 0, `${name} is not sorted, or has a value twice`);
    last = each;
  }
}

const MOMENT = /^(?!0000)\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/;

/** A time, for example 2026-11-21T12:00:00Z, in milliseconds since 1970. */
export function moment(members: Members, name: string): number {
  const written = text(members, name);
  const at = MOMENT.test(written) ? Date.parse(written) : Number.NaN;
  need(!Number.isNaN(at) && momentOf(at) === written, `${name} is no time`);
  return at;
}

/** The text of a time given in milliseconds since 1970. */
export const momentOf = (at: number): string => `${new Date(at).toISOString().slice(0, 19)}Z`;
