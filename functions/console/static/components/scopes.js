/** Scopes of API keys in words. */

/** @type {Record<Api.Scope, string>} */
export const SCOPES = {
  admin: 'full access',
  authorizer: 'fetch SRLs and check warrants',
  'read-only': 'read-only access',
  revoker: 'revoke and unrevoke warrants',
  signer: 'sign warrants',
  auditor: 'read the audit log and revocations',
}

/**
 * Describe the permissions of a key with these scopes, for example "sign warrants, read-only access".
 * @param {Api.Scope[]} scopes
 */
export const inWords = (scopes) =>
  scopes.includes('admin') ? SCOPES.admin : scopes.map((scope) => SCOPES[scope] ?? scope).join(', ')
