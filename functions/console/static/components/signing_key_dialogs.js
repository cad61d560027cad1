/** Dialogs that change signing keys after confirmation. */

import { now, post } from '../api.js'
import { instant } from '../format.js'
import { html, one } from '../html.js'
import { below, isActive, mayHaveChildren } from '../signing_keys.js'
import { ask, choice, field, tick } from './dialog.js'

/** @typedef {import('../signing_keys.js').Place} Place */
/** @typedef {import('../signing_keys.js').Forest} Forest */

/** Actions on a key: title, the word after success, and consequences. */
const CHANGES = {
  rotate: [
    'Rotate',
    'rotated',
    'The key gets a new version and keeps its identifier. The current version can no longer sign. ' +
      'Its warrants stay valid.',
  ],
  suspend: [
    'Suspend',
    'suspended',
    'The key and its descendants cannot sign until you enable it again. Their warrants stay valid.',
  ],
  enable: ['Enable', 'enabled', 'The key can sign again if all its ancestors are active.'],
}

/**
 * Rotate, suspend or enable a key. Resolves with a message, or with null if the person cancelled.
 * @param {Place} place
 * @param {keyof typeof CHANGES} action
 */
export function change({ key }, action) {
  const [title, done, text] = CHANGES[action]
  return ask({
    title: html`${title} <bdi>${key.name}</bdi>`,
    body: html`<p>${text}</p>`,
    action: `${title} key`,
    run: async (_form, headers) => {
      await post(`/v1/keys/${key.id}/${action}`, undefined, { headers })
      return `Signing key ${key.name} ${done}.`
    },
    failed: 'The key could not be changed.',
  })
}

/**
 * Create a key. Resolves with the key, or with null.
 * @param {Forest} forest
 * @param {Place | null} wanted the parent of the new key
 * @returns {Promise<Api.SigningKey | null>}
 */
export function create(forest, wanted) {
  const parents = forest.roots
    .flatMap((root) => [...below(root)])
    .filter((each) => mayHaveChildren(each) && isActive(each, now()))
  const parent = wanted && parents.includes(wanted) ? wanted : null
  const options = parents.map((each) => /** @type {const} */ ([each.key.id, path(each), each === parent]))
  const place = one(html`<div ?hidden=${!parent}>${field('Parent', choice('parent_id', options))}</div>`)
  const choose = (/** @type {Event} */ event) => {
    place.hidden = /** @type {HTMLInputElement} */ (event.target).value === 'root'
  }
  const type = (/** @type {string} */ value, /** @type {string} */ text, isFirst = false) =>
    tick(html`<input type="radio" name="type" value=${value} required ?checked=${isFirst} />`, text)
  return ask({
    title: 'New signing key',
    action: 'Create key',
    run: (form, headers) => {
      const { type: kind, name, parent_id: above, ends } = Object.fromEntries(form)
      const parentId = kind === 'root' ? undefined : above
      const expiry = ends ? instant(String(ends), true) : undefined
      return post('/v1/keys', { type: kind, name, parent_id: parentId, expires_at: expiry }, { headers })
    },
    failed: 'The key could not be created.',
    body: html` <fieldset @change=${choose}>
        <legend>Type</legend>
        ${type('root', 'Root: the top of a hierarchy, for example for a company', !parent)}
        ${
          parents.length > 0 && [
            type('issuer', 'Issuer: can have child keys, for example for a department'),
            type('notary', 'Notary: has no child keys, for a program that signs', Boolean(parent)),
          ]
        }
      </fieldset>
      ${field('Name', html`<input name="name" required maxlength="255" dir="auto" />`)} ${place}
      ${field(
        'Expiry date (optional)',
        html`<input name="ends" type="date" />`,
        'In UTC. Without a date, a root key does not expire, and other keys expire with their parents.',
      )}`,
  })
}

/** @param {Place} place */
function path(place) {
  const names = []
  for (let at = /** @type {Place | null} */ (place); at; at = at.parent) names.unshift(at.key.name)
  return names.join(' / ')
}
