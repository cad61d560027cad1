/** Formats entries of the audit log as sentences, and runs of entries as one sentence. */

import { count, date, nameOf, short } from '../format.js'

/** @typedef {Api.AuditEntry} Entry */
/**
 * @typedef {object} Run entries of one actor and one action, newest first; `name` is the API key's name at that time
 * @property {Entry[]} entries
 * @property {string} actor
 * @property {string | null} name
 * @property {string} action
 */

const MINUTE = 60_000

/** Action in words, for one object, for several. @type {Record<string, [string, string, string]>} */
const DONE = {
  'api_key.create': ['created', 'the API key', 'API keys'],
  'api_key.rotate': ['rotated', 'the API key', 'API keys'],
  'api_key.revoke': ['revoked', 'the API key', 'API keys'],
  'api_key.delete': ['deleted', 'the API key', 'API keys'],
  'api_key.leaked': ['revoked', 'the leaked API key', 'leaked API keys'],
  'api_key.expiring': ['announced the expiry of', 'the API key', 'API keys'],
  'key.create': ['created', 'the signing key', 'signing keys'],
  'key.rotate': ['rotated', 'the signing key', 'signing keys'],
  'key.revoke': ['revoked', 'the signing key', 'signing keys'],
  'key.suspend': ['suspended', 'the signing key', 'signing keys'],
  'key.enable': ['enabled', 'the signing key', 'signing keys'],
  'key.sign': ['signed', 'the warrant', 'warrants'],
  'key.expiring': ['announced the expiry of', 'the signing key', 'signing keys'],
  'revocation.create': ['revoked', 'the warrant', 'warrants'],
  'revocation.delete': ['unrevoked', 'the warrant', 'warrants'],
  'revocation.extend': ['extended the revocation of', 'the warrant', 'warrants'],
  'revocation.extend_batch': ['extended the revocation of', 'the warrant', 'warrants'],
  'revocation.create_batch': ['revoked', 'the warrant', 'warrants'],
  'revocation.delete_batch': ['unrevoked', 'the warrant', 'warrants'],
  'revocation.batch': ['sent', 'a request of the batch', 'requests of batches'],
  'revocation.repair': ['repaired the revocation of', 'the warrant', 'warrants'],
  'srl.regenerate': ['published', 'SRL', 'SRLs'],
  'srl.create_key': ['created', 'the SRL signer', 'SRL signers'],
  'srl.rotate_key': ['rotated to', 'the SRL signer', 'SRL signers'],
  'srl.activate_key': ['activated', 'the SRL signer', 'SRL signers'],
  'srl.revoke_key': ['revoked', 'the SRL signer', 'SRL signers'],
  'native_signer.create': ['created', 'the native list signer', 'native list signers'],
  'status_list.create': ['created', 'the status list', 'status lists'],
  'status_list.allocate': ['allocated entries of', 'the status list', 'status lists'],
  'status_list.rotate_key': ['rotated to', 'the status list signer', 'status list signers'],
  'service_account.create': ['created', 'the service account', 'service accounts'],
  'service_account.disable': ['disabled', 'the service account', 'service accounts'],
  'service_account.enable': ['enabled', 'the service account', 'service accounts'],
  'service_account.delete': ['deleted', 'the service account', 'service accounts'],
  'authorizer.register': ['registered', 'the authorizer', 'authorizers'],
  'authorizer.remove': ['removed', 'the authorizer', 'authorizers'],
  'authorizer.remove_batch': ['removed authorizers of', 'the API key', 'API keys'],
  'authorizer.stale': ['detected', 'the stale authorizer', 'stale authorizers'],
  'audit_log.rotate_key': ['rotated to', 'the audit signer', 'audit signers'],
  'audit_log.start_generation': ['started a generation of', 'the transparency log', 'transparency logs'],
  'audit_log.statement': ['counted the changes of', 'the previous day', 'days'],
  'trust.publish': ['published', 'the trust document', 'trust documents'],
  'trust.replace_root': ['replaced the root keys of', 'the trust documents', 'trust documents'],
  'tenant.create': ['created', 'the tenant', 'tenants'],
  'tenant.update_settings': ['changed', 'the settings', 'settings'],
  'recovery.complete_review': ['completed', 'the recovery review', 'recovery reviews'],
  'tenant.rename': ['renamed', 'the tenant', 'tenants'],
  'tenant.delete': ['marked for deletion', 'the tenant', 'tenants'],
  'tenant.cancel_delete': ['cancelled the deletion of', 'the tenant', 'tenants'],
  'identity_provider.create': ['bound', 'the identity provider', 'identity providers'],
  'identity_provider.update': ['changed', 'the identity provider', 'identity providers'],
  'identity_provider.delete': ['deleted', 'the identity provider', 'identity providers'],
  'person.disable': ['disabled', 'the person', 'people'],
  'person.enable': ['enabled', 'the person', 'people'],
  'person.sign_out': ['signed out', 'the person', 'people'],
  'session.create': ['started', 'the session', 'sessions'],
  'session.delete': ['signed out', 'the session', 'sessions'],
  'role.put': ['set', 'the role', 'roles'],
  'role.delete': ['deleted', 'the role', 'roles'],
  'approval.request': ['requested', 'the approval', 'approvals'],
  'approval.approve': ['gave', 'the approval', 'approvals'],
  'approval.reject': ['rejected', 'the approval', 'approvals'],
  'approval.consume': ['used', 'the approval', 'approvals'],
  'approval.override': ['overrode', 'the approval', 'approvals'],
  'tenant.update_protected_actions': ['changed', 'the protected actions', 'lists of protected actions'],
  'webhook.create': ['created', 'the webhook to', 'webhooks'],
  'webhook.update': ['changed', 'the webhook to', 'webhooks'],
  'webhook.rotate_secret': ['rotated the secret of', 'the webhook to', 'webhooks'],
  'webhook.enable': ['enabled', 'the webhook to', 'webhooks'],
  'webhook.disable': ['disabled', 'the webhook to', 'webhooks'],
  'webhook.replay': ['replayed the events of', 'the webhook to', 'webhooks'],
  'webhook.test': ['tested', 'the webhook to', 'webhooks'],
  'webhook.delete': ['deleted', 'the webhook to', 'webhooks'],
}

/** An override without an approval: from then on, no action requires one. @type {typeof DONE[string]} */
const UNPROTECTED = ['removed', 'the protection of all actions', 'protections of all actions']

/** Actions with a sentence. */
export const ACTIONS = Object.keys(DONE)

/** The entry for a whole batch call, and the actions of its parts. */
const SUMMARY = 'revocation.batch'
/** @type {Record<string, string>} */
const KINDS = {
  'revocation.create_batch': 'revoke',
  'revocation.extend_batch': 'revoke',
  'revocation.delete_batch': 'unrevoke',
}

/**
 * Group entries into runs.
 *
 * A run has entries of one actor and action, each within a minute of its neighbours. All entries of one batch on one
 * day are a run too, with the entries of its calls, at the place of the newest.
 * @param {Entry[]} entries newest first
 * @returns {Run[]}
 */
export function collapseRuns(entries) {
  /** @type {Run[]} */
  const runs = []
  /** @type {Map<string, Run>} */
  const batches = new Map()
  for (const entry of entries) {
    const batch = batchOf(entry)
    const last = batch ? batches.get(batch) : runs.at(-1)
    if (last && (batch || isNext(last, entry))) {
      last.entries.push(entry)
      if (last.action === SUMMARY) last.action = entry.action
    } else {
      const run = { entries: [entry], actor: entry.actor, name: entry.actor_name, action: entry.action }
      runs.push(run)
      if (batch) batches.set(batch, run)
    }
  }
  return runs
}

/**
 * Return the group key of a batch entry: day and actor; null for other entries.
 * @param {Entry} entry
 */
function batchOf({ action, actor, actor_name, timestamp, details }) {
  const kind = details.action ?? KINDS[action] ?? action
  return details.batch_id === undefined
    ? null
    : JSON.stringify([details.batch_id, kind, date(timestamp), actor, actor_name])
}

/**
 * @param {Run} run
 * @param {Entry} entry
 */
function isNext(run, entry) {
  const before = run.entries[run.entries.length - 1]
  const isAlike =
    batchOf(before) === null &&
    run.actor === entry.actor &&
    run.name === entry.actor_name &&
    run.action === entry.action &&
    isUnprotecting(before) === isUnprotecting(entry)
  return (
    isAlike &&
    date(before.timestamp) === date(entry.timestamp) &&
    Date.parse(before.timestamp) - Date.parse(entry.timestamp) <= MINUTE
  )
}

/** @param {Entry} entry */
const isUnprotecting = ({ action, resource_id: id }) => action === 'approval.override' && !id.startsWith('svc_apr_')

/**
 * Return the sentence of a run: actor, action, object. An unknown action appears unchanged.
 * @param {Run} run
 * @returns {{who: string, did: string, what: string}}
 */
export function sentence({ entries, action, actor, name }) {
  const who = nameOf(actor, name)
  const known = isUnprotecting(entries[0]) ? UNPROTECTED : DONE[action]
  const parts = entries.filter((each) => action === SUMMARY || each.action !== SUMMARY)
  const many = parts.reduce(
    (sum, { details }) => sum + (Array.isArray(details.revocations) ? details.revocations.length : 1),
    0,
  )
  const [entry] = parts
  if (!known) return { who, did: action, what: entries.length > 1 ? `(${entries.length} entries)` : entry.resource_id }
  const [did, one, several] = known
  return { who, did, what: many > 1 ? count(many, one, several) : `${one} ${thing(entry)}`.trimEnd() }
}

/** Actions with sentences that need no name. */
const NAMELESS = new Set([
  'audit_log.statement',
  'tenant.update_settings',
  'tenant.update_protected_actions',
  'recovery.complete_review',
])

/**
 * Return the object of an entry, by the name that people use.
 * @param {Entry} entry
 */
function thing(entry) {
  const { action, resource_id, details } = entry
  if (action === 'srl.regenerate') return resource_id.replace('srl/', '')
  if (NAMELESS.has(action) || isUnprotecting(entry)) return ''
  if (Array.isArray(details.revocations) && details.revocations.length === 1)
    return String(details.revocations[0].warrant_id)
  const name = details.name ?? details.warrant_id ?? details.host
  return typeof name === 'string' ? name : resource_id.length > 20 ? short(resource_id) : resource_id
}
