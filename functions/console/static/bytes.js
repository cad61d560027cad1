/** Bytes: base64, texts, SHA-256, and which come first. */

/** @typedef {Uint8Array<ArrayBuffer>} Bytes */

/**
 * The bytes of padded base64 of the standard alphabet, of which each text has one spelling; else null.
 * @param {unknown} text
 * @returns {Bytes | null}
 */
export function base64(text) {
  if (typeof text !== 'string') return null
  try {
    const bytes = atob(text)
    return btoa(bytes) === text ? Uint8Array.from(bytes, (letter) => letter.charCodeAt(0)) : null
  } catch {
    return null
  }
}

/** @param {Uint8Array} bytes at most some thousands */
export const toBase64 = (bytes) => btoa(String.fromCharCode(...bytes))

/**
 * The text of bytes in UTF-8. Throws `TypeError` if they are not.
 * @param {Uint8Array} bytes
 */
export const text = (bytes) => new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes)

/**
 * One after the other; of a text, its UTF-8.
 * @param {...(ArrayLike<number> | string)} parts
 * @returns {Bytes}
 */
export function joined(...parts) {
  const all = parts.map((part) => (typeof part === 'string' ? new TextEncoder().encode(part) : part))
  const data = new Uint8Array(all.reduce((sum, part) => sum + part.length, 0))
  let at = 0
  for (const part of all) {
    data.set(part, at)
    at += part.length
  }
  return data
}

/**
 * Whether bytes come before others, bytewise.
 * @param {Uint8Array} one
 * @param {Uint8Array} other
 */
export function isBefore(one, other) {
  const differs = one.findIndex((byte, index) => byte !== other[index])
  return differs < 0 ? one.length < other.length : one[differs] < other[differs]
}

/**
 * @param {Uint8Array<ArrayBuffer>} data
 * @returns {Promise<Bytes>}
 */
export const sha256 = async (data) => new Uint8Array(await crypto.subtle.digest('SHA-256', data))
