/** What is known of API keys. Nothing here knows the document. */

/** @typedef {Pick<Api.ApiKeySummary, 'id' | 'scopes' | 'role' | 'status' | 'created_at' | 'expires_at'>} Key */

/** @param {Key} key */
const endOf = ({ expires_at }) => (expires_at ? Date.parse(expires_at) : Infinity)

/**
 * Whether one of the others has taken the place of a key: a later one that may do as much and lasts longer.
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
