/** The keys that sign lists: their states, and what an administrator can do with them. */

import { get, now, post } from '../api.js'
import { short } from '../format.js'
import { html } from '../html.js'
import { ask } from '../parts/dialog.js'
import { announce, when } from '../parts/panel.js'
import { table } from '../parts/table.js'
import { stateOf, tag } from '../parts/tag.js'
import { may } from '../session.js'

const MEANING = { standby: 'signs at once if another was stolen', pending: 'listed, and signs nothing yet', active: 'signs lists', retired: 'signed before; its last list is still valid', revoked: 'was stolen: its lists are refused' }
const PATH = '/v1/revocations/srl/keys'

/**
 * @param {AbortSignal} signal
 * @param {() => Promise<void>} redraw
 */
export async function signersCard(signal, redraw) {
  const { keys } = /** @type {Api.SrlKeyList} */ (await get(PATH, { signal }))
  const change = (/** @type {Promise<Api.SrlKey | null>} */ asked) => asked.then((done) => {
    if (!done) return
    announce(`List signer ${short(done.key_id)} is ${done.status}.`)
    if (done.status === 'revoked') location.hash = `#/changes/${done.key_id}`
    return redraw()
  })
  const pending = keys.find(({ status }) => status === 'pending')
  return html`
    ${table('List signers', [
      { heading: 'Signer', cell: ({ key_id }) => html`<code>${short(key_id)}</code>` },
      { heading: 'State', cell: ({ status }) => tag(stateOf(status), status) },
      { heading: 'Meaning', cell: (/** @type {Api.SrlKey} */ key) => meaning(key) },
      { heading: 'Made', cell: ({ created_at }) => when(created_at) },
      ...(may() ? [{ heading: '', kind: /** @type {const} */ ('action'), cell: (/** @type {Api.SrlKey} */ key) => actions(key, change) }] : []),
    ], keys)}
    ${may() && html`<div class="actions">
      ${!pending && html`<button type="button" @click=${() => change(create())}>Make the next signer…</button>`}
      <button type="button" @click=${() => change(rotate(pending))}>Replace the signer now…</button>
    </div>`}`
}

/** @param {Api.SrlKey} key */
function meaning({ status, activates_at }) {
  if (status === 'pending' && activates_at && Date.parse(activates_at) > now()) return html`${MEANING.pending}; may sign ${when(activates_at)}`
  return MEANING[status]
}

/**
 * @param {Api.SrlKey} key
 * @param {(asked: Promise<Api.SrlKey | null>) => Promise<void>} change
 */
const actions = (key, change) => html`
  ${key.status === 'pending' && html`<button type="button" @click=${() => change(activate(key))}>Activate…</button>`}
  ${key.status !== 'revoked' && html`<button type="button" class="quiet" aria-label=${`Revoke the list signer ${short(key.key_id)}`} @click=${() => change(revoke(key))}>Revoke…</button>`}`

/** @returns {Promise<Api.SrlKey | null>} */
const create = () => ask({
  title: 'Make the next list signer', action: 'Make the signer', failed: 'The signer could not be made.',
  body: html`<p>It is listed as pending, and the next trust document names it, so that authorizers learn of it. It signs nothing until it is activated.</p>`,
  run: (_form, headers) => post(PATH, undefined, { headers }),
})

/**
 * @param {Api.SrlKey} key
 * @returns {Promise<Api.SrlKey | null>}
 */
function activate({ key_id, activates_at }) {
  const early = activates_at !== null && Date.parse(activates_at) > now()
  return ask({
    title: `Activate the list signer ${short(key_id)}`, action: early ? 'Activate it early' : 'Activate', danger: early, failed: 'The signer could not be activated.',
    body: html`<p>It signs a new list at once, and the present signer is retired.</p>
      ${early && html`<p><strong>Authorizers that have not learned of it yet refuse its lists.</strong> They all have had the time ${when(activates_at)}.</p>`}`,
    run: (_form, headers) => post(`${PATH}/${key_id}/activate`, early ? { force: true } : undefined, { headers }),
  })
}

/**
 * @param {Api.SrlKey | undefined} pending
 * @returns {Promise<Api.SrlKey | null>}
 */
const rotate = (pending) => ask({
  title: 'Replace the list signer now', action: 'Replace it', danger: true, failed: 'The signer could not be replaced.',
  body: html`<p>${pending ? html`The pending signer ${short(pending.key_id)}` : 'A new signer'} signs a list at once.</p>
    <p><strong>Authorizers that read lists refuse it until they know the new key.</strong> To give them time, make the next signer and activate it later.</p>`,
  run: (_form, headers) => post(`${PATH}/rotate`, undefined, { headers }),
})

/**
 * @param {Api.SrlKey} key
 * @returns {Promise<Api.SrlKey | null>}
 */
const revoke = ({ key_id, status }) => ask({
  title: `Revoke the list signer ${short(key_id)}`, action: 'Revoke it', danger: true, failed: 'The signer could not be revoked.',
  body: html`<p>Do this if the key was stolen. It cannot be undone.</p>
    ${status === 'active' && html`<p><strong>Another key takes over at once.</strong> Authorizers with the pin of the roots follow by themselves. Give the new public key to each one that pins list signers: until then it refuses all.</p>`}`,
  run: (_form, headers) => post(`${PATH}/${key_id}/revoke`, undefined, { headers }),
})
