/** Details of the selected signing key: facts, signed warrants, and revocation impact. */

import { ApiError, get, now } from '../api.js'
import { count, minute } from '../format.js'
import { html, one, put } from '../html.js'
import { scheduleRender } from '../store.js'
import { announce, banner, button, copy, facts, problem, when } from '../components/panel.js'
import { change } from '../components/signing_key_dialogs.js'
import { describeImpact, dryRun, revoke } from '../components/signing_key_revocation.js'
import { tag } from '../components/tag.js'
import { timeline } from '../components/timeline.js'
import { hasScope } from '../session.js'
import { blockReason, isActive, mayHaveChildren, keyState } from '../signing_keys.js'

/** @typedef {import('../signing_keys.js').Place} Place */

/**
 * The page that contains this part.
 * @typedef {object} Owner
 * @property {AbortSignal} signal
 * @property {boolean} isDarkShown
 * @property {Element} message place for messages
 * @property {(...content: unknown[]) => void} showMessage shows a message there
 * @property {(isShown: boolean) => void} showDark
 * @property {(place: Place | null) => void} choose
 * @property {(parent: Place) => Promise<void>} make
 * @property {(id?: string) => Promise<void>} reread
 */

export class ChosenKey {
  /** @param {Owner} page */
  constructor(page) {
    this.page = page
    this.element = one(html`<section class="panel chosen-key" aria-label="Selected key"></section>`)
    /** @type {Place | null} */
    this.place = null
    this.isAsking = false
    /** Serialized form of the displayed place. @type {string | null} */
    this.drawn = null
    this.story = one(html`<div class="scrolled"></div>`)
    /** @type {HTMLDetailsElement} */
    this.history = one(
      html`<details class="history" @toggle=${scheduleRender}>
        <summary>Timeline</summary>
        ${this.story}
      </details>`,
    )
  }

  /** Draw the history of the key, if it is open. */
  drawHistory() {
    if (!this.place || !this.history.open) return
    const { id, name } = this.place.key
    put(this.story, timeline({ resource_id: id }, name))
  }

  /**
   * Show a place from a new forest, if it differs from the displayed place.
   * @param {Place | null} place
   */
  take(place) {
    const serialized =
      place &&
      JSON.stringify([
        { ...place.key, warrant_count: 0 },
        place.blocked?.key.id,
        place.older.length,
        place.children.map(({ key: { id, status } }) => [id, status]),
      ])
    if (serialized !== this.drawn || !place) this.show(place)
    else this.place = place
    this.drawn = serialized
  }

  /** @param {Place | null} place */
  show(place) {
    this.place = place
    this.drawn = null
    this.element.classList.toggle('none', !place)
    if (!place)
      return put(this.element, html`<p class="soft">Select a key to see its details and revocation impact.</p>`)
    const { key } = place
    const { state, word } = keyState(place, now())
    put(
      this.element,
      html` <div class="about">
          <h2 dir="auto">${key.name}</h2>
          <p>${key.type}, ${tag(state, word)}</p>
          ${state === 'blocked' && html`<p class="soft">${blockReason(place)}</p>`}
          <div class="changes">${this.changes(place)}</div>
          ${button('Close', () => this.page.choose(null), 'close')}
        </div>
        <div class="known">${this.facts(place)}</div>
        <div class="reach">
          ${this.impact(place)}
          <div class="actions">${this.buttons(place)}</div>
        </div>
        ${this.history}`,
    )
    this.drawHistory()
    scheduleRender()
  }

  /** @param {Place} place */
  facts({ key, older }) {
    const versions = key.version ?? older.length + 1
    return facts([
      ['Identifier', whole(key.id, 'identifier')],
      ['Public key', whole(key.public_key, 'public key')],
      ['Created', html`${minute(key.created_at)} UTC`],
      ['Expires', key.expires_at ? html`${minute(key.expires_at)} UTC, ${when(key.expires_at)}` : 'never'],
      ['Versions', versions === 1 ? '1' : this.versions(key.id, versions)],
      ['Signed', this.later(() => this.signed(key.id), 'The warrant count could not be loaded.')],
    ])
  }

  /**
   * Return an element with content that loads later.
   * @param {() => Promise<unknown>} load
   * @param {string} failed a sentence
   * @param {string | null} [role]
   */
  later(load, failed, role = null) {
    const place = one(html`<div role=${role}>…</div>`)
    const { signal } = this.page
    load()
      .catch((error) => {
        if (signal.aborted) return null
        const isForbidden = error instanceof ApiError && error.status === 403
        return isForbidden ? 'not available to this API key' : problem(error, failed)
      })
      .then((content) => put(place, content))
    return place
  }

  /** @param {string} id */
  async signed(id) {
    /** @type {Api.IssuedWarrantList} */
    const { total, warrants } = await get(`/v1/keys/${id}/warrants`, { query: { limit: 1 }, signal: this.page.signal })
    return html`${count(total, 'warrant')}${warrants.length > 0 && html`, the last ${when(warrants[0].signed_at)}`}`
  }

  /**
   * Return the versions, which are read when a person opens them.
   * @param {string} id
   * @param {number} number
   */
  versions(id, number) {
    const list = one(html`<div></div>`)
    const open = (/** @type {Event} */ { target }) => {
      if (!(/** @type {HTMLDetailsElement} */ (target).open)) return
      const versions = this.later(() => this.versionList(id), 'The versions could not be loaded.')
      put(list, versions)
    }
    // Closed again for each key.
    return one(
      html`<details @toggle=${open}>
        <summary>Show ${number} versions</summary>
        ${list}
      </details>`,
    )
  }

  /** @param {string} id */
  async versionList(id) {
    /** @type {Api.SigningKeyVersionList} */
    const { versions } = await get(`/v1/keys/${id}/versions`, { signal: this.page.signal })
    return html`<ul class="rowed">
      ${versions.map(({ key_id, version, created_at, status, rotated_at }) => {
        const note = status === 'revoked' ? ', revoked' : rotated_at ? '' : ', current'
        const revoke = () => this.revoke({ id: key_id, version })
        return html` <li>
          <span>v${version}, created ${when(created_at)}${note}</span>
          ${hasScope() && status === 'rotated' && button(`Revoke v${version}…`, revoke, 'quiet')}
        </li>`
      })}
    </ul>`
  }

  /**
   * Return the revocation impact in the service's numbers. For a revoked key, return the reason.
   * @param {Place} place
   */
  impact(place) {
    if (!hasScope())
      return html`<p class="effect soft">Only API keys with the scope admin can see the revocation impact.</p>`
    const { id } = place.key
    const load = async () => {
      const answer = await dryRun(id, true, this.page.signal)
      if (answer.revoked_at)
        return html`<div class="effect revoked">
          <p>
            <strong>Revoked ${when(answer.revoked_at)}.</strong> Online checks refuse all its warrants. Authorizers
            refuse them once they receive the change.
          </p>
          <p class="reason"><bdi dir="auto">${answer.reason}</bdi></p>
          <p><a href=${`#/changes/${id}`}>Propagation</a></p>
        </div>`
      return html`<p class="effect revoked">
        <strong
          >Revoking this key
          ${place.children.length > 0 && 'and its descendants '}${describeImpact(answer, place)}.</strong
        >
        This cannot be undone.
      </p>`
    }
    return this.later(load, 'The revocation impact could not be loaded.', 'status')
  }

  /** @param {Place} place */
  buttons({ key }) {
    if (key.status === 'revoked') return null
    const words = () => (this.page.isDarkShown ? 'Hide impact' : 'Show impact')
    const toggle = one(
      button(words(), () => {
        this.page.showDark(!this.page.isDarkShown)
        put(toggle, words())
      }),
    )
    return [toggle, hasScope() && button('Revoke…', () => this.revoke(), 'danger')]
  }

  /** Return the buttons of reversible actions. @param {Place} place */
  changes(place) {
    const { status } = place.key
    if (!hasScope()) return null
    const isOpen = mayHaveChildren(place) && isActive(place, now())
    return [
      isOpen && button('New child key…', () => this.page.make(place), 'quiet'),
      status === 'active' && button('Rotate…', () => this.change('rotate'), 'quiet'),
      status === 'active' && button('Suspend…', () => this.change('suspend'), 'quiet'),
      status === 'suspended' && button('Enable…', () => this.change('enable'), 'quiet'),
    ]
  }

  /** @param {'rotate' | 'suspend' | 'enable'} action */
  async change(action) {
    const place = /** @type {Place} */ (this.place)
    const done = await change(place, action)
    if (!done) return
    announce(done)
    await this.page.reread(place.key.id)
  }

  /** Revoke the key, or one superseded version. @param {{id: string, version: number} | null} [version] */
  async revoke(version = null) {
    const { page, place } = this
    if (!place || this.isAsking) return
    this.isAsking = true
    try {
      const answer = await revoke(place, version, page.signal)
      if (!answer) return
      if (answer.done) {
        announce(answer.text)
        location.hash = `#/changes/${version?.id ?? place.key.id}`
        return
      }
      page.isDarkShown = false
      await page.reread(place.key.id)
      page.showMessage(banner('wait', answer.text))
    } catch (error) {
      if (!page.signal.aborted)
        put(page.message, problem(error, 'The revocation impact could not be loaded. Nothing was revoked.'))
    } finally {
      this.isAsking = false
    }
  }
}

/**
 * Return a long text with a copy button.
 * @param {string} text
 * @param {string} what
 */
const whole = (text, what) =>
  html`<span class="whole"
    ><code>${text}</code
    ><button type="button" class="quiet" aria-label=${`Copy ${what}`} @click=${() => copy(text)}>Copy</button></span
  >`
