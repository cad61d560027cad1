/** Dialogs that change signing keys after confirmation. */

import { now, post } from '../api.js'
import { instant } from '../format.js'
import { html, one } from '../html.js'
import { below, isActive, mayHaveChildren } from '../signing_keys.js'
import { ask, choice, field, tick } from './dialog.js'

/** @typedef {import('../signing_keys.js').Place} Place */
/** @typedef {import('../signing_keys.js').Forest} Forest */

const CHANGES = {
  rotate: {
    title: 'Rotate',
    action: 'Rotate the key',
    done: 'was rotated',
    text:
      'The key gets a new key pair and keeps its identifier. The present version cannot sign any more; ' +
      'the warrants that it signed stay valid.',
  },
  suspend: {
    title: 'Suspend',
    action: 'Suspend the key',
    done: 'was suspended',
    text:
      'The key, and all keys below it, cannot sign until it is enabled again. ' +
      'The warrants that they signed stay valid.',
  },
  enable: {
    title: 'Enable',
    action: 'Enable the key',
    done: 'was enabled',
    text: 'The key can sign again, if all keys above it are active.',
  },
}

/**
 * Rotate, suspend or enable a key. Resolves with a message, or with null if the person cancelled.
 * @param {Place} place
 * @param {keyof typeof CHANGES} action
 */
export function change({ key }, action) {
  const { title, action: words, text, done } = CHANGES[action]
  return ask({
    title: html`${title} <bdi>${key.name}</bdi>`,
    body: html`<p>${text}</p>`,
    action: words,
    run: async (_form, headers) => {
      await post(`/v1/keys/${key.id}/${action}`, undefined, { headers })
      return `The key ${key.name} ${done}.`
    },
    failed: 'The key was not changed.',
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
  const place = one(html`<div ?hidden=${!parent}>${field('Below', choice('parent_id', options))}</div>`)
  const choose = (/** @type {Event} */ event) => {
    place.hidden = /** @type {HTMLInputElement} */ (event.target).value === 'root'
  }
  const type = (/** @type {string} */ value, /** @type {string} */ text, isFirst = false) =>
    tick(html`<input type="radio" name="type" value=${value} required ?checked=${isFirst} />`, text)
  return ask({
    title: 'Make a key',
    action: 'Make the key',
    run: (form, headers) => {
      const { type: kind, name, parent_id: above, ends } = Object.fromEntries(form)
      const made = {
        type: kind,
        name,
        ...(kind !== 'root' && { parent_id: above }),
        ...(ends && { expires_at: instant(String(ends), true) }),
      }
      return post('/v1/keys', made, { headers })
    },
    failed: 'The key was not made.',
    body: html` <fieldset @change=${choose}>
        <legend>What kind of key</legend>
        ${type('root', 'Root: stands at the top, for a company or a programme', !parent)}
        ${
          parents.length > 0 && [
            type('issuer', 'Issuer: has other keys below it, for a department'),
            type('notary', 'Notary: has no keys below it, for a program that signs', Boolean(parent)),
          ]
        }
      </fieldset>
      ${field('Name', html`<input name="name" required maxlength="255" dir="auto" />`)} ${place}
      ${field(
        'Last day (optional)',
        html`<input name="ends" type="date" />`,
        'In UTC. Without a date, a root does not expire, and other keys expire with the key above them.',
      )}`,
  })
}

/** @param {Place} place */
function path(place) {
  const names = []
  for (let at = /** @type {Place | null} */ (place); at; at = at.parent) names.unshift(at.key.name)
  return names.join(' / ')
}
