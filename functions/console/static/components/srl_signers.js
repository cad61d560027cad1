/** SRL signers: their states, and the actions of an administrator. */

import { now, post } from '../api.js'
import { short } from '../format.js'
import { html } from '../html.js'
import { hasScope } from '../session.js'
import { ask } from './dialog.js'
import { announce, button, copy, when } from './panel.js'

/** Return what a signer with this status does. @param {Api.SrlKeyStatus} status */
const meaning = (status) => MEANING[status]
/** @type {Record<Api.SrlKeyStatus, string>} */
const MEANING = {
  standby: 'takes over if another signer is stolen',
  pending: 'announced, does not sign yet',
  active: 'signs SRLs',
  retired: 'signed before; its last SRL is still valid',
  revoked: 'its SRLs are rejected',
}
export const SIGNERS = '/v1/revocations/srl/keys'

/** @type {import('../table.js').Spec} */
export const signers = {
  id: 'lists',
  part: 'signers',
  noun: 'SRL signers',
  sort: '-created',
  mark: 'state',
  key: ({ key_id }) => key_id,
  columns: [
    { id: 'signer', title: 'Signer', width: 'minmax(180px, 1fr)', of: 'key_id', kind: 'name' },
    { id: 'state', title: 'State', width: '124px', of: 'status', kind: 'status' },
    {
      id: 'meaning',
      title: 'Meaning',
      width: 'minmax(220px, 2fr)',
      from: 860,
      text: ({ status }) => meaning(status),
      cell: (key) => {
        const words = meaning(key.status)
        const later = ripens(key) && html`; can be activated ${when(key.activates_at)}`
        return html`<span title=${words}>${words}${later}</span>`
      },
    },
    { id: 'created', title: 'Created', width: '116px', of: 'created_at', kind: 'time' },
    { id: 'public', title: 'Public key', text: ({ public_key }) => public_key },
  ],
  sub: ({ status, created_at: at }) => html`${meaning(status)} · created ${when(at)}`,
  actions: (key) => [
    { title: 'Copy public key', run: () => copy(key.public_key) },
    hasScope() && key.status === 'pending' && { title: 'Activate…', run: () => activate(key) },
    hasScope() && key.status !== 'revoked' && { title: 'Revoke…', run: () => revoke(key), danger: true },
  ],
  empty: html`<p>No SRL signers yet.</p>`,
}

/** Return the buttons that apply to no particular signer. @param {Api.SrlKey[]} keys */
export function buttons(keys) {
  const pending = keys.find(({ status }) => status === 'pending')
  return (
    hasScope() &&
    keys.length > 0 &&
    html`${!pending && button('Create signer…', create)} ${button('Rotate signer now…', () => rotate(pending))}`
  )
}

/** Return whether a signer must wait before it may sign. @param {Api.SrlKey} key */
const ripens = ({ status, activates_at }) =>
  status === 'pending' && activates_at !== null && Date.parse(activates_at) > now()

/**
 * Ask for confirmation, change the signer, and show the result.
 * @param {string} path below the path of all signers
 * @param {{title: string, action: string, failed: string, body: unknown, danger?: boolean}} question
 * @param {unknown} [sent]
 */
async function change(path, question, sent) {
  /** @type {Api.SrlKey | null} */
  const done = await ask({ ...question, run: (_form, headers) => post(`${SIGNERS}${path}`, sent, { headers }) })
  if (!done) return
  announce(`SRL signer ${short(done.key_id)} is ${done.status}.`)
  if (done.status === 'revoked') location.hash = `#/changes/${done.key_id}`
}

const create = () =>
  change('', {
    title: 'Create SRL signer',
    action: 'Create signer',
    failed: 'The signer could not be created.',
    body: html`<p>
      The new signer is pending. The next trust document announces it to authorizers. It does not sign until you
      activate it.
    </p>`,
  })

/** @param {Api.SrlKey} key */
function activate(key) {
  const early = ripens(key)
  const question = {
    title: `Activate SRL signer ${short(key.key_id)}`,
    action: early ? 'Activate early' : 'Activate signer',
    danger: early,
    failed: 'The signer could not be activated.',
    body: html`<p>It signs a new SRL immediately, and the current signer is retired.</p>
      ${
        early &&
        html`<p>
          <strong>Authorizers that have not fetched its key yet reject its SRLs.</strong> The activation delay ends
          ${when(key.activates_at)}.
        </p>`
      }`,
  }
  return change(`/${key.key_id}/activate`, question, early ? { force: true } : undefined)
}

/** @param {Api.SrlKey | undefined} pending */
const rotate = (pending) =>
  change('/rotate', {
    title: 'Rotate SRL signer now',
    action: 'Rotate signer',
    danger: true,
    failed: 'The signer could not be rotated.',
    body: html`<p>
        ${pending ? html`The pending signer ${short(pending.key_id)}` : 'A new signer'} signs an SRL immediately.
      </p>
      <p>
        <strong>Authorizers that use SRLs reject it until they have the new key.</strong> To give them time, create a
        signer and activate it later.
      </p>`,
  })

/** @param {Api.SrlKey} key */
const revoke = ({ key_id, status }) =>
  change(`/${key_id}/revoke`, {
    title: `Revoke SRL signer ${short(key_id)}`,
    action: 'Revoke signer',
    danger: true,
    failed: 'The signer could not be revoked.',
    body: html`<p>Revoke the signer if its key was stolen. This cannot be undone.</p>
      ${
        status === 'active' &&
        html`<p>
          <strong>Another signer takes over immediately.</strong> Authorizers with a pin of the root keys follow
          automatically. Authorizers that pin an SRL signer fail closed until you give them the new public key.
        </p>`
      }`,
  })
