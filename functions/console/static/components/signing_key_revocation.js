/** Dialog that revokes a signing key: the revocation impact, the reason, and the cascade. */

import { now, post } from '../api.js'
import { count, number } from '../format.js'
import { html, one, put } from '../html.js'
import { layout, MOST, tree } from '../charts/signing_keys.js'
import { cascadeOf, visibleItems } from '../signing_keys.js'
import { ask, field, reasonField, tick } from './dialog.js'
import { picture } from './panel.js'

/** @typedef {import('../signing_keys.js').Place} Place */
/** @typedef {{id: string, version: number}} Version a superseded version of the key */
/** @typedef {{keys?: number, warrants?: number}} Reach numbers of a dry run */
/** @typedef {{done: boolean, text: string}} Answer */

/** Above these numbers of warrants or keys, a person types the name of the key. */
const MANY = { warrants: 100, keys: 10 }

/**
 * Return the revocation impact from a dry run. Throws `ApiError`.
 * @param {string} id
 * @param {boolean} cascade
 * @param {AbortSignal} signal
 * @returns {Promise<Api.RevokedSigningKey>}
 */
export const dryRun = (id, cascade, signal) =>
  post(`/v1/keys/${id}/revoke`, { reason: 'Dry run', cascade, dry_run: true }, { signal })

/**
 * Format the affected keys: "3 keys".
 *
 * The service counts superseded versions of child keys as keys; people do not. If its number differs from the tree, for
 * example after another client created a key, its number counts.
 * @param {Reach} reach
 * @param {Place} place
 */
function affectedKeys({ keys = 0 }, place) {
  const all = cascadeOf(place)
  const versions = [...all]
    .filter((each) => each !== place)
    .flatMap(({ older }) => older)
    .filter(({ status }) => status === 'rotated').length
  return versions && keys === all.size + versions
    ? `${count(all.size, 'key')}, ${count(versions, 'superseded version')}`
    : count(keys, 'key')
}

/**
 * Format the impact: "affects 3 keys and 5 warrants".
 * @param {Reach} reach
 * @param {Place} place
 */
export const describeImpact = (reach, place) =>
  `affects ${affectedKeys(reach, place)} and ${reach.warrants ? count(reach.warrants, 'warrant') : 'no warrants'}`

/**
 * Revoke a key, alone or with its descendants, or one superseded version.
 *
 * Resolves with a message, or with null if the person cancelled. Throws `ApiError` if the impact cannot be read.
 * @param {Place} place
 * @param {Version | null} version
 * @param {AbortSignal} signal
 * @returns {Promise<Answer | null>}
 */
export async function revoke(place, version, signal) {
  const id = version?.id ?? place.key.id
  const alone = await dryRun(id, false, signal)
  const all = alone.descendants ? await dryRun(id, true, signal) : null
  return new Question(place, version, alone, all).ask(id)
}

class Question {
  #words = one(html`<span>Revoke</span>`)
  #typed = one(html`<div></div>`)
  #picture = picture((width) => this.#draw(width))

  /**
   * @param {Place} place
   * @param {Version | null} version
   * @param {Api.RevokedSigningKey} alone
   * @param {Api.RevokedSigningKey | null} all with all descendants, if any
   */
  constructor(place, version, alone, all) {
    this.place = place
    this.version = version
    this.alone = alone
    this.all = all
    /** Whether to revoke the descendants too; null until the person chooses. @type {boolean | null} */
    this.cascade = all ? null : false
    this.choose(this.cascade)
  }

  /** @param {string} id @returns {Promise<Answer | null>} */
  async ask(id) {
    let isTried = false
    const name = html`<bdi>${this.place.key.name}</bdi>`
    /** @type {Answer | null} */
    const answer = await ask({
      title: this.version ? html`Revoke version ${this.version.version} of ${name}` : html`Revoke ${name}`,
      body: html`${!this.version && html`<div class="goes-dark">${this.#picture.element}</div>`}
      ${this.all ? this.#choice() : html`<p>The revocation ${this.#describe(false)}. This cannot be undone.</p>`}
      ${reasonField('Shown in the audit log and in every check of a warrant.', 500)} ${this.#typed}`,
      action: this.#words,
      run: async (form, headers) => {
        isTried = true
        await post(`/v1/keys/${id}/revoke`, { reason: form.get('reason'), cascade: this.cascade ?? false }, { headers })
        return { done: true, text: this.#describeResult() }
      },
      danger: true,
      wide: Boolean(this.all),
      failed: 'The revocation is incomplete. Revoke again to continue with the remaining keys.',
    })
    const open = { done: false, text: 'The revocation is incomplete. Some keys may be revoked, others not.' }
    return answer ?? (isTried ? open : null)
  }

  #choice() {
    const { descendants = 0 } = this.alone
    const stay =
      descendants === 1
        ? 'Its descendant can no longer sign, but the warrants of the descendant stay valid.'
        : `Its ${number(descendants)} descendants can no longer sign, but their warrants stay valid.`
    const option = (/** @type {boolean} */ cascade, /** @type {string} */ title, /** @type {string} */ text) => {
      const choose = () => this.choose(cascade)
      return tick(
        html`<input type="radio" name="cascade" value=${String(cascade)} required @change=${choose} />`,
        html`<strong>${title}</strong> ${text}`,
      )
    }
    return html`<fieldset>
      <legend>Scope of the revocation. This cannot be undone.</legend>
      ${option(false, 'Only this key:', `${this.#describe(false)}. ${stay}`)}
      ${option(true, 'With descendants:', `${this.#describe(true)}.`)}
    </fieldset>`
  }

  /** @param {boolean | null} cascade */
  choose(cascade) {
    this.cascade = cascade
    if (cascade === null) return
    const words = cascade ? 'Revoke with descendants' : 'Revoke key'
    const { keys = 0, warrants = 0 } = this.#impact(cascade)
    put(this.#words, this.version ? `Revoke version ${this.version.version}` : words)
    put(this.#typed, (warrants > MANY.warrants || keys > MANY.keys) && this.#nameField())
    this.#picture.redraw()
  }

  /** The name is typed again, so that a slip cannot revoke many keys. */
  #nameField() {
    const name = this.place.key.name.normalize().trim()
    /** @type {HTMLInputElement} */
    const input = one(html`<input name="name" autocomplete="off" spellcheck="false" required dir="auto" />`)
    const judge = () =>
      input.setCustomValidity(input.value.normalize().trim() === name ? '' : 'Enter the exact name of the key.')
    input.addEventListener('input', judge)
    judge()
    return field('Key name', input, `Enter the name to confirm: the revocation ${this.#describe(this.cascade)}.`)
  }

  /** @param {boolean | null} cascade @returns {Reach} */
  #impact(cascade) {
    return cascade && this.all ? this.all : this.alone
  }

  /** @param {boolean | null} cascade */
  #describe(cascade) {
    const { alone, version } = this
    if (version) return `affects ${count(alone.warrants ?? 0, 'warrant')} of version ${version.version}`
    return describeImpact(this.#impact(cascade), this.place)
  }

  /** Describe the result. */
  #describeResult() {
    const reach = this.#impact(this.cascade)
    const { warrants = 0 } = reach
    const what = this.version ? `version ${this.version.version}` : affectedKeys(reach, this.place)
    const note = 'Online checks refuse the warrants immediately, authorizers once they receive the change.'
    return `Revoked: ${what} and ${count(warrants, 'warrant')}. ${warrants ? note : ''}`.trim()
  }

  /** @param {number} width */
  #draw(width) {
    const dark = this.cascade ? cascadeOf(this.place) : new Set([this.place])
    const forest = { roots: [this.place], places: new Map() }
    const items = visibleItems(forest, { folded: new Set(), whole: new Set(), found: '' })
    const more = items.length - MOST
    const name = `${this.place.key.name}, and its descendants; keys that would be revoked are hatched`
    const picture = tree(layout(items.slice(0, MOST), width), { name, now: now(), dark, cut: this.place })
    return html`${picture}${more > 0 && html`<p class="soft">and ${number(more)} more</p>`}`
  }
}
