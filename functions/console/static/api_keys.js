/** What is known of API keys. Nothing here knows the document. */

/** @typedef {Pick<Api.ApiKeySummary, 'id' | 'name' | 'scopes' | 'status' | 'created_at' | 'expires_at'>} Key */

/** @param {Key} key */
const endOf = ({ expires_at }) => (expires_at ? Date.parse(expires_at) : Infinity)

/**
 * Whether another key has taken its place: a later one of the same name and scopes that lasts longer,
 * as a replacement makes.
 * @param {Key} key
 * @param {Key[]} keys
 */
export const isReplaced = (key, keys) =>
  keys.some(
    (other) =>
      other.id !== key.id &&
      other.status === 'active' &&
      other.name === key.name &&
      other.scopes.join() === key.scopes.join() &&
      other.created_at >= key.created_at &&
      endOf(other) > endOf(key),
  )
