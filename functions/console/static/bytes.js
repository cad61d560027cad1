/** Base64 and SHA-256 for pages that do not load the trust module. */

/** @typedef {Uint8Array<ArrayBuffer>} Bytes */

/** @param {Uint8Array} bytes at most some thousands */
export const toBase64 = (bytes) => btoa(String.fromCharCode(...bytes))

/**
 * Concatenate bytes, and texts as UTF-8.
 * @param {...(ArrayLike<number> | string)} parts
 * @returns {Bytes}
 */
export function concat(...parts) {
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
 * @param {Uint8Array<ArrayBuffer>} data
 * @returns {Promise<Bytes>}
 */
export const sha256 = async (data) => new Uint8Array(await crypto.subtle.digest('SHA-256', data))
