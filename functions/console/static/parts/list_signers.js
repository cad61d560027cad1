/** SRL signers: their states, and the actions of an administrator. */

import { now, post } from '../api.js'
import { short } from '../format.js'
import { html } from '../html.js'
import { may } from '../session.js'
import { ask } from './dialog.js'
import { announce, copy, when } from './panel.js'

/** @type {Record<Api.SrlKeyStatus, string>} */
const MEANING = {
  standby: 'signs at once if another was stolen',
  pending: 'listed, and signs nothing yet',
  active: 'signs lists',
  retired: 'signed before; its last list is still valid',
  revoked: 'was stolen: its lists are refused',
}
export const SIGNERS = '/v1/revocations/srl/keys'

/** @type {import('../table.js').Spec} */
export const signers = {
  id: 'lists',
  part: 'signers',
  noun: 'list signers',
  sort: '-made',
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
      text: meaning,
      cell: (key) =>
        html`<span title=${meaning(key)}
          >${meaning(key)}${ripens(key) && html`; may sign ${when(key.activates_at)}`}</span
        >`,
    },
    { id: 'made', title: 'Made', width: '116px', of: 'created_at', kind: 'time' },
    { id: 'public', title: 'Public key', text: ({ public_key }) => public_key },
  ],
  sub: (key) => html`${meaning(key)} · made ${when(key.created_at)}`,
  actions: (key) => [
    { title: 'Copy the public key', run: () => copy(key.public_key) },
    may() && key.status === 'pending' && { title: 'Activate…', run: () => activate(key) },
    may() && key.status !== 'revoked' && { title: 'Revoke…', run: () => revoke(key), danger: true },
  ],
  empty: html`<p>No list was signed yet.</p>`,
}

/** Return the buttons that apply to no particular signer. @param {Api.SrlKey[]} keys */
export function buttons(keys) {
  const pending = keys.find(({ status }) => status === 'pending')
  return (
    may() &&
    keys.length > 0 &&
    html` ${!pending && html`<button type="button" @click=${create}>Make the next signer…</button>`}
      <button type="button" @click=${() => rotate(pending)}>Replace the signer now…</button>`
  )
}

/** Return whether a signer must wait before it may sign. @param {Api.SrlKey} key */
const ripens = ({ status, activates_at }) =>
  status === 'pending' && activates_at !== null && Date.parse(activates_at) > now()

/** @param {Api.SrlKey} key */
function meaning({ status }) {
  return MEANING[status]
}

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
  announce(`List signer ${short(done.key_id)} is ${done.status}.`)
  if (done.status === 'revoked') location.hash = `#/changes/${done.key_id}`
}

const create = () =>
  change('', {
    title: 'Make the next list signer',
    action: 'Make the signer',
    failed: 'The signer could not be made.',
    body: html`<p>
      It is listed as pending, and the next trust document names it, so that authorizers learn of it. It signs nothing
      until it is activated.
    </p>`,
  })

/** @param {Api.SrlKey} key */
function activate(key) {
  const early = ripens(key)
  const question = {
    title: `Activate the list signer ${short(key.key_id)}`,
    action: early ? 'Activate it early' : 'Activate',
    danger: early,
    failed: 'The signer could not be activated.',
    body: html`<p>It signs a new list at once, and the present signer is retired.</p>
      ${
        early &&
        html`<p>
          <strong>Authorizers that have not learned of it yet refuse its lists.</strong> They all have had the time
          ${when(key.activates_at)}.
        </p>`
      }`,
  }
  return change(`/${key.key_id}/activate`, question, early ? { force: true } : undefined)
}

/** @param {Api.SrlKey | undefined} pending */
const rotate = (pending) =>
  change('/rotate', {
    title: 'Replace the list signer now',
    action: 'Replace it',
    danger: true,
    failed: 'The signer could not be replaced.',
    body: html`<p>
        ${pending ? html`The pending signer ${short(pending.key_id)}` : 'A new signer'} signs a list at once.
      </p>
      <p>
        <strong>Authorizers that read lists refuse it until they know the new key.</strong> To give them time, make the
        next signer and activate it later.
      </p>`,
  })

/** @param {Api.SrlKey} key */
const revoke = ({ key_id, status }) =>
  change(`/${key_id}/revoke`, {
    title: `Revoke the list signer ${short(key_id)}`,
    action: 'Revoke it',
    danger: true,
    failed: 'The signer could not be revoked.',
    body: html`<p>Do this if the key was stolen. It cannot be undone.</p>
      ${
        status === 'active' &&
        html`<p>
          <strong>Another key takes over at once.</strong> Authorizers with the pin of the roots follow by themselves.
          Give the new public key to each one that pins list signers: until then it refuses all.
        </p>`
      }`,
  })
