/** Scopes of API keys in words. */

/** @type {Record<Api.Scope, string>} */
export const SCOPES = {
  admin: 'may do everything',
  authorizer: 'fetches lists and checks warrants',
  'read-only': 'may read',
  revoker: 'revokes warrants and takes back',
  signer: 'signs warrants',
  auditor: 'reads the audit log and revocations',
}

/**
 * Describe the rights of a key with these scopes, for example "signs warrants, may read".
 * @param {Api.Scope[]} scopes
 */
export const inWords = (scopes) =>
  scopes.includes('admin') ? SCOPES.admin : scopes.map((scope) => SCOPES[scope] ?? scope).join(', ')
