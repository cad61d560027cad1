/** CBOR in deterministic encoding (RFC 8949, 4.2.1), of the kinds that lists and trust documents use. */

import { isBefore, text } from './bytes.js'

/** Bytes that are encoded otherwise. */
export class NotCbor extends Error {}

/** No list and no document is as deep. */
const DEPTH = 64
const TIME = /^(?!0000)\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/

/**
 * @param {unknown} holds
 * @returns {asserts holds}
 */
function check(holds) {
  if (!holds) throw new NotCbor()
}

/**
 * The value in bytes: integers, byte strings, texts, arrays, maps with texts as keys (each a `Map`), false,
 * true and null. An integer above 2^53 is a `bigint`. Throws `NotCbor`, also for tags and floats.
 * @param {Uint8Array<ArrayBuffer>} data
 * @returns {unknown}
 */
export function decode(data) {
  let at = 0
  const take = (/** @type {number} */ size) => {
    check(size <= data.length - at)
    return data.subarray(at, (at += size))
  }
  const argument = (/** @type {number} */ short) => {
    if (short < 24) return short
    check(short < 28)
    const size = 2 ** (short - 24)
    const value = take(size).reduce((sum, byte) => sum * 256n + BigInt(byte), 0n)
    // A shorter head would have done.
    check(value >= (size === 1 ? 24n : 256n ** BigInt(size / 2)))
    return value > 2n ** 53n ? value : Number(value)
  }
  const texts = (/** @type {number} */ size) => {
    try {
      return text(take(size))
    } catch {
      throw new NotCbor()
    }
  }
  const map = (/** @type {number} */ size, /** @type {number} */ depth) => {
    const members = new Map()
    let last = new Uint8Array()
    for (; size > 0; size--) {
      const start = at
      const name = item(depth)
      const key = data.subarray(start, at)
      check(typeof name === 'string' && isBefore(last, key))
      members.set(name, item(depth))
      last = key
    }
    return members
  }
  /** @type {(depth: number) => unknown} */
  const item = (depth) => {
    check(depth <= DEPTH)
    const [head] = take(1)
    const [kind, short] = [head >> 5, head & 31]
    if (kind === 7) {
      check(short >= 20 && short <= 22)
      return [false, true, null][short - 20]
    }
    const size = argument(short)
    if (kind === 0) return size
    if (kind === 1) return typeof size === 'number' ? -1 - size : -1n - size
    // An element has at least a byte: no enormous array is made for a short text.
    check(kind < 6 && typeof size === 'number' && size <= data.length - at)
    if (kind === 2) return take(size)
    if (kind === 3) return texts(size)
    return kind === 5 ? map(size, depth + 1) : Array.from({ length: size }, () => item(depth + 1))
  }
  const value = item(0)
  check(at === data.length)
  return value
}

/**
 * The milliseconds of a time such as 2026-11-21T12:00:00Z; null if it is none.
 * @param {unknown} value
 */
export function moment(value) {
  const time = new Date(typeof value === 'string' && TIME.test(value) ? value : NaN)
  return !Number.isNaN(time.getTime()) && time.toISOString().replace('.000Z', 'Z') === value ? time.getTime() : null
}
