/** A tenant in which nothing was revoked yet: what to do, and what of it is done. */

import { get } from '../api.js'
import { html } from '../html.js'
import { tag } from '../parts/tag.js'

/** @param {AbortSignal} signal */
export async function firstSteps(signal) {
  const some = async (/** @type {string} */ path) => /** @type {{total: number}} */ (await get(path, { signal, query: { limit: 1 } })).total > 0
  const [keys, authorizers] = await Promise.all(['/v1/keys', '/v1/authorizers'].map((path) => some(path).catch(() => false)))
  const step = (/** @type {string} */ what, /** @type {boolean} */ done, /** @type {string} */ href, /** @type {string} */ action) => html`
    <li><span>${what}</span>${done ? tag('force', 'done') : html`<a class="button" href=${href}>${action}</a>`}</li>`
  return html`<section class="panel"><h2>Three steps to the first refused warrant</h2><ol class="steps">
    ${step('Make a root key. Issuers and notaries hang below it; they sign warrants.', keys, '#/keys', 'Make a root key')}
    ${step('Give your authorizers a key. They read the list with it, and report what they hold.', authorizers, '#/api-keys', 'Make an API key')}
    ${step('Revoke a warrant to see it happen.', false, '#/revocations', 'Revoke a warrant')}
  </ol></section>`
}
