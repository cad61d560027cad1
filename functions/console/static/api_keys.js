/** Rules about API keys. Does not access the DOM. */

/** @typedef {Pick<Api.ApiKeySummary, 'id' | 'scopes' | 'role' | 'status' | 'created_at' | 'expires_at'>} Key */

/** @param {Key} key */
const endOf = ({ expires_at }) => (expires_at ? Date.parse(expires_at) : Infinity)

/**
 * Return whether another key replaces this key.
 *
 * A replacement is newer, has at least the same rights and expires later.
 * @param {Key} key
 * @param {Key[]} others
 */
export const isReplaced = (key, others) =>
  others.some(
    (other) =>
      other.id !== key.id &&
      other.status === 'active' &&
      other.role === key.role &&
      key.scopes.every((scope) => other.scopes.includes(scope)) &&
      other.created_at >= key.created_at &&
      endOf(other) > endOf(key),
  )
