/** The 26 characters of a ULID in identifiers: Crockford's digits in lower case. */

const DIGITS = '0123456789abcdefghjkmnpqrstvwxyz'

/**
 * Create a ULID.
 * @param {number} time in milliseconds
 */
export function newUlid(time) {
  let stamp = ''
  for (let rest = time; stamp.length < 10; rest = Math.floor(rest / 32)) stamp = DIGITS[rest % 32] + stamp
  return `${stamp}${[...crypto.getRandomValues(new Uint8Array(16))].map((byte) => DIGITS[byte % 32]).join('')}`
}

/**
 * Encode 16 bytes as a ULID.
 * @param {Uint8Array} data
 */
export function ulid(data) {
  let value = data.reduce((sum, byte) => (sum << 8n) | BigInt(byte), 0n)
  let text = ''
  for (let digit = 0; digit < 26; digit++, value >>= 5n) text = DIGITS[Number(value & 31n)] + text
  return text
}

/**
 * Return the creation time in seconds, from the first ten characters.
 * @param {string} text
 */
export const madeAt = (text) =>
  [...text.slice(0, 10)].reduce((sum, digit) => sum * 32 + DIGITS.indexOf(digit), 0) / 1000
