/** Approvals: their cards on the overview, the decision, and the approved action. */

import { all, answers, ApiError, now, post, remove } from '../api.js'
import { concat, sha256 } from '../bytes.js'
import { count, hex, minute, short } from '../format.js'
import { html, one, put } from '../html.js'
import { hasScope, currentCaller } from '../session.js'
import { MANIFESTS, readManifest, UnrevokeRun } from './batch.js'
import { APPROVAL, ask, confirm, showSecret } from './dialog.js'
import { detailRows } from './differences.js'
import { announce, button, facts, userText } from './panel.js'

/** @typedef {Api.Approval} Approval */
/** @typedef {{what: unknown, why: unknown, buttons: unknown}} Card */
/** @typedef {(headers: Record<string, string>) => Promise<any>} Repeat */

/** Descriptions of the actions, by count. @type {Record<string, (times: number) => string>} */
const ACTIONS = {
  'revocations.unrevoke': (times) => `Unrevoke ${count(times, 'warrant')}`,
  'revocations.unrevoke_others': (times) => `Unrevoke ${count(times, 'warrant')} of others`,
  'srl_signers.force_activate': () => 'Activate another SRL signer early',
  'tenant.remove': () => 'Remove the tenant with all its data',
  'admin_keys.create': () => 'Create or rotate an API key with full access',
  'access.change': () => 'Change access',
  'settings.weaken': () => 'Weaken a setting',
  'signing_keys.revoke_root': () => 'Revoke a root key',
  'status_signer.rotate': () => 'Rotate the status list signer',
}
/** Names of an approval's details. @type {Record<string, string>} */
const DETAILS = {
  warrant_id: 'Warrant',
  name: 'Name',
  manifest_id: 'Manifest',
  sha256: 'SHA-256 of its members',
}
/** As in the dialog that rotates an API key. */
const GRACES = [0, 3600, 86_400, 604_800]

/**
 * Return a card for each approval that is pending, or that the caller may use.
 * @param {AbortSignal} signal
 * @param {() => Promise<unknown>} redraw
 * @returns {Promise<Card[]>}
 */
export async function approvalCards(signal, redraw) {
  // The newest are first, and an approval expires within a day.
  const approvals = /** @type {Approval[]} */ (await all('/v1/approvals', 'approvals', { signal, most: 1 }))
  return approvals
    .filter(({ expires_at, remaining }) => Date.parse(expires_at) > now() && remaining > 0)
    .flatMap((each) => card(each, redraw) ?? [])
}

/**
 * @param {Approval} approval
 * @param {() => Promise<unknown>} redraw
 * @returns {Card | null}
 */
function card(approval, redraw) {
  const { status, remaining, action, reason, requested_by: by, decided_by: other, expires_at: end } = approval
  const own = approval.requested_by_id === currentCaller().person_id
  const what = html`<strong>${words(action, remaining)}</strong> ${subject(approval)}`
  const until = `until ${minute(end)} UTC`
  const why = html`<bdi dir="auto">${reason}</bdi>`
  if (status === 'pending' && own) return { what, why: html`waiting for approval ${until}: ${why}`, buttons: null }
  if (status === 'pending') {
    const buttons = [
      button('Approve…', () => decide(approval, 'approve', redraw)),
      button('Reject…', () => decide(approval, 'reject', redraw)),
    ]
    return { what, why: html`requested by <bdi>${by}</bdi>, valid ${until}: ${why}`, buttons: hasScope() && buttons }
  }
  if (status !== 'approved' || !own) return null
  const buttons = button('Use approval…', () => use(approval, redraw))
  return { what, why: html`approved by <bdi>${other}</bdi>, valid ${until}`, buttons }
}

/**
 * @param {string} action
 * @param {number} times
 */
export const words = (action, times) => ACTIONS[action]?.(times) ?? action

/** @param {Approval} approval */
function subject({ subject: it, details }) {
  const { name, warrant_id: warrant } = details
  if (typeof warrant === 'string') return html`<code>${warrant}</code>`
  return typeof name === 'string' ? userText(name) : html`<code>${it.startsWith('svc_man_') ? short(it) : it}</code>`
}

/** Return the facts for the approver. @param {Approval} approval */
export function about({ action, remaining, subject, requested_by: by, reason, details: all }) {
  const { groups = [], ...details } = /** @type {Record<string, any>} */ (all)
  // How many revocations an identity made, with the reason.
  /** @param {{created_by: string, reason: string, count: number}} group @returns {[string, unknown]} */
  const groupRow = (group) => [`${count(group.count, 'revocation')} by ${group.created_by}`, userText(group.reason)]
  /** @param {[string, string]} row @returns {[string, unknown]} */
  const detailRow = ([name, value]) => [DETAILS[name] ?? name, userText(value)]
  return [
    facts([
      ['Action', words(action, remaining)],
      ['Resource', html`<code>${subject}</code>`],
      ['Requested by', userText(by)],
      ['Reason', userText(reason)],
      ...groups.map(groupRow),
      ...detailRows(details).map(detailRow),
    ]),
    details.sha256 ? members(subject) : null,
  ]
}

/** Return the members of a manifest, in pages. @param {string} id */
function members(id) {
  const pages = answers(`${MANIFESTS}/${id}/members`)
  const place = one(html`<div class="body"></div>`)
  /** @type {Api.ManifestMember[]} */
  const list = []
  const more = async () => {
    const { value } = await pages.next()
    list.push(...value.members)
    draw(value.cursor === null ? null : 'Show more members')
  }
  const draw = (/** @type {string | null} */ words) =>
    put(
      place,
      html`<ul>
          ${list.map(
            ({ warrant_id: warrant, created_by: by, reason }) =>
              html`<li>
                <code>${warrant}</code>
                ${by === null ? 'changed since' : html`<bdi>${by}</bdi>: <bdi dir="auto">${reason}</bdi>`}
              </li>`,
          )}
        </ul>
        ${words && button(words, more)}`,
    )
  draw('Show all members')
  return place
}

/** Decisions: title of the dialog, button, and the messages after success and failure. */
const DECISIONS = /** @type {const} */ ({
  approve: ['Approve this request?', 'Approve', 'Approved.', 'The request could not be approved.'],
  reject: ['Reject this request?', 'Reject', 'Rejected.', 'The request could not be rejected.'],
  withdraw: ['Withdraw this request?', 'Withdraw request', 'Withdrawn.', 'The request could not be withdrawn.'],
})

/**
 * Decide on an approval. The requester withdraws a request with a rejection.
 * @param {Approval} approval
 * @param {keyof typeof DECISIONS} verb
 * @param {() => Promise<unknown>} [redraw]
 */
export async function decide(approval, verb, redraw = async () => {}) {
  const [title, action, success, failed] = DECISIONS[verb]
  const path = `/v1/approvals/${approval.id}/${verb === 'approve' ? 'approve' : 'reject'}`
  const done = await confirm({
    title,
    action,
    success,
    failed,
    body: [
      about(approval),
      verb === 'approve' && html`<p>The requester can then run the action within an hour.</p>`,
      verb === 'withdraw' && html`<p>The request can no longer be approved or used. You can send a new one.</p>`,
    ],
    run: (headers) => post(path, undefined, { headers }),
  })
  if (done) await redraw()
}

/**
 * Execute the approved action.
 * @param {Approval} approval
 * @param {() => Promise<unknown>} [redraw]
 */
export async function use(approval, redraw = async () => {}) {
  const place = one(html`<div class="body"></div>`)
  const done = await ask({
    title: 'Run the approved action?',
    action: 'Run approved action',
    failed: 'The action did not run.',
    body: [about(approval), place],
    run: async (_form, headers) => {
      const repeat = await repeated(approval, place)
      if (!repeat)
        throw new ApiError(
          409,
          'elsewhere',
          'This page cannot run the request. Repeat it where it was made. ' +
            `With the command line, add --approval ${approval.id}.`,
        )
      return (await repeat({ ...headers, [APPROVAL]: approval.id })) ?? true
    },
  })
  if (!done) return
  announce('Approved action completed.')
  await Promise.all([
    redraw(),
    done.key && showSecret('Store this key now', done.key, html`Secret of <bdi>${done.name}</bdi>.`),
  ])
}

/**
 * Return the approved request; null if this console does not support the action.
 * @param {Approval} approval
 * @param {Element} place of the progress
 * @returns {Promise<Repeat | null>}
 */
async function repeated(approval, place) {
  const { subject: it, request } = approval
  if (it.startsWith('svc_rev_')) return (headers) => remove(`/v1/revocations/${it}`, headers)
  if (it.startsWith('svc_man_'))
    return async ({ [APPROVAL]: id = '' }) => {
      const run = new UnrevokeRun(await readManifest(it), new AbortController().signal)
      if (!(await run.go(place, run.parts, approval.reason, { [APPROVAL]: id })))
        throw new ApiError(409, 'stopped', 'You stopped the action. Run it again to continue.')
    }
  for (const body of bodies(approval)) {
    const text = body === undefined ? '' : JSON.stringify(body)
    if (request?.method === 'POST' && hex(await sha256(concat(text))) === request.sha256)
      return (headers) => post(request.path, body, { headers })
  }
  return null
}

/** Return the possible request bodies of an action. @param {Approval} approval */
function bodies({ action, details }) {
  const { name, reason, cascade, changes = {} } = /** @type {Record<string, any>} */ (details)
  if (action === 'srl_signers.force_activate') return [{ force: true }, undefined]
  if (action === 'signing_keys.revoke_root') return [{ reason, cascade }]
  if (action !== 'admin_keys.create') return []
  const value = (/** @type {string} */ member) => changes[member]?.new ?? null
  const [scopes, service_account_id, expires_at] = ['scopes', 'service_account_id', 'expires_at'].map(value)
  const key = { name, scopes, service_account_id, expires_at, networks: value('networks') ?? [] }
  return [key, ...GRACES.map((grace_seconds) => ({ grace_seconds }))]
}
